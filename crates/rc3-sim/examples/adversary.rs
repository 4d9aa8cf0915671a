//! A receiver that lies to its sender, beside others on a bottleneck.
//!
//! `cargo run --release -p rc3-sim --example adversary -- try 'change arrival.micros factor=0.1' ...` prints what these lies do in each
//! setting; `-- search [trials=2000] [seed=1] [threads=2] [SETTING ...]` searches for the worst and prints them, with its
//! progress on stderr.

use std::{num::NonZero, time::Instant};

use rc3_sim::adversary::{Harms, Lie, SETTINGS, Search, Setting, Trial, report};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((verb, lies)) if verb == "try" => try_out(lies),
        Some((verb, words)) if verb == "search" => search(words),
        _ => println!("say what: try LIE ... | search [trials=2000] [seed=1] [threads=2] [SETTING ...]"),
    }
}

/// Prints what each lie does in each setting, honesty first.
fn try_out(lies: &[String]) {
    println!("{}", report::HEAD);
    for setting in SETTINGS {
        let honest = Trial::honest(setting).confirm();
        for lie in std::iter::once("").chain(lies.iter().map(String::as_str)) {
            match lie.parse::<Lie>() {
                Ok(lie) => {
                    let trial = Trial { setting, lie };
                    let outcome = trial.confirm();
                    println!("{}", report::row(&trial, &outcome, &Harms::between(&honest, &outcome)));
                }
                Err(error) => eprintln!("{lie}: {error}"),
            }
        }
    }
}

fn search(words: &[String]) {
    let number =
        |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    let (trials, seed): (u64, u64) = (number("trials").unwrap_or(2000), number("seed").unwrap_or(1));
    let threads = number("threads").and_then(|count| NonZero::new(count as usize));
    let mut settings: Vec<Setting> = words.iter().filter_map(|word| Setting::find(word)).collect();
    if settings.is_empty() {
        settings.extend(SETTINGS);
    }
    #[expect(clippy::disallowed_methods, reason = "progress of a long computation, which takes real time")]
    let began = Instant::now();
    let mut search = Search::new(&settings, threads.unwrap_or(NonZero::<usize>::MIN), seed);
    let mut best = [1.0; Harms::COUNT];
    while search.trials() < trials {
        search.step();
        for (harm, champion) in search.champions() {
            let Some((name, ratio)) =
                champion.harms.iter().nth(harm).filter(|(_, ratio)| *ratio > best[harm] * 1.02)
            else {
                continue;
            };
            best[harm] = ratio;
            let (trials, seconds) = (search.trials(), began.elapsed().as_secs_f64());
            let Trial { setting, lie } = &champion.trial;
            eprintln!("{seconds:7.1} s {trials:6} trials  {name:6} {ratio:8.2}  {:7} {lie}", setting.name);
        }
    }
    search.simplify();
    println!("{}", report::HEAD);
    for (setting, outcome) in search.honest() {
        println!("{}", report::row(&Trial::honest(*setting), outcome, &Harms::between(outcome, outcome)));
    }
    for (_, champion) in search.champions() {
        println!("{}", report::row(&champion.trial, &champion.outcome, &champion.harms));
    }
}
