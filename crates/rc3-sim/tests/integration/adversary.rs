//! Receivers that lie, and the search for them.

use std::{num::NonZero, sync::OnceLock, thread};

use rc3_sim::adversary::{Harms, Lie, SETTINGS, Search, Setting, Trial, TrialResult};

fn lie(text: &str) -> Lie {
    text.parse().expect("a lie")
}

fn middle() -> Setting {
    Setting::find("middle").expect("it is there")
}

fn tried(setting: Setting, text: &str) -> TrialResult {
    Trial { setting, lie: lie(text) }.run()
}

/// What every lie in a setting is compared with.
fn honest(setting: Setting) -> TrialResult {
    static OUTCOMES: [OnceLock<TrialResult>; SETTINGS.len()] = [const { OnceLock::new() }; SETTINGS.len()];
    let at = SETTINGS.iter().position(|&it| it == setting).expect("it is one of them");
    *OUTCOMES[at].get_or_init(|| Trial::honest(setting).confirm())
}

#[test]
fn every_setting_is_used_by_an_honest_receiver_without_much_harm() {
    for setting in SETTINGS {
        let honest = honest(setting);
        assert!(honest.rlp_sent > 0 && honest.work > 0 && honest.third > 0.0, "{}: {honest:?}", setting.name);
        assert!(honest.reading_rate() > 0.3 * setting.bits_per_second as f64, "{}: {honest:?}", setting.name);
        assert!(honest.cross_loss < 0.15, "{}: {honest:?}", setting.name);
    }
}

#[test]
fn a_trial_is_the_same_each_time() {
    let text =
        "change arrival.micros factor=0.5 noise=100; withhold sack chance=0.1; delay rlp by=3 chance=0.5";
    assert_eq!(tried(middle(), text), tried(middle(), text));
}

/// The liar's datagrams are sealed anew, with numbers of its own: without a rule that makes no difference.
#[test]
fn a_lie_that_changes_nothing_does_nothing() {
    let honest = Trial::honest(middle()).run();
    assert_eq!(tried(middle(), "change arrival.micros factor=1; delay rlp by=0"), honest);
}

/// The sender has more to write when it ends the connection.
#[test]
fn a_liar_that_is_found_out_ends_no_trial() {
    let setting = Setting::find("bursts").expect("it is there");
    for from in [400, 450, 500, 550, 600] {
        let outcome = tried(setting, &format!("claim complete from={from}"));
        assert!(outcome.read > 0 && outcome.read < 2_000_000, "{from}: {outcome:?}");
    }
}

#[test]
fn lies_reach_the_sender() {
    let honest = Trial::honest(middle()).run();
    // RLP does something else without any feedback.
    assert_ne!(tried(middle(), "withhold rlp").rlp_sent, honest.rlp_sent);
    // Spans that nobody received, and reports of packets that nobody sent, end the connection.
    for text in
        ["change sack.end shift=100000", "change sack.receipt shift=1", "change arrival.number shift=100000"]
    {
        let outcome = tried(middle(), text);
        assert!(outcome.read < honest.read / 2, "{text}: {outcome:?}");
    }
    // Credit that is not needed, and control frames without end, do neither.
    let outcome = tried(middle(), "claim credit value=1000000000000 every=10");
    assert!(outcome.read > honest.read / 2, "{outcome:?}");
}

#[test]
fn a_search_is_the_same_for_any_number_of_threads() {
    let settings = [Setting::find("slow").expect("it is there")];
    let found = |threads| {
        let mut search = Search::new(&settings, NonZero::new(threads).expect("some"), 7);
        search.step();
        search.champions().map(|(_, champion)| champion.clone()).collect::<Vec<_>>()
    };
    let (one, two) = (found(1), found(2));
    assert!(!one.is_empty() && one == two);
}

/// Loss and gain of a lie, as ratios to honesty.
fn ratios(setting: Setting, text: &str) -> [f64; 2] {
    let harms = Harms::between(&honest(setting), &Trial { setting, lie: lie(text) }.confirm());
    ["loss", "gain"].map(|harm| harms.of(harm))
}

/// No lie harms others much more than honesty, nor does it pay.
#[test]
fn lies_that_searches_found_gain_nothing() {
    const LOSS_MAX: f64 = 1.5;
    const GAIN_MAX: f64 = 1.1;
    let lies = include_str!("lies.txt").lines().filter(|line| !line.starts_with('#'));
    let worse: Vec<_> = thread::scope(|scope| {
        let tried: Vec<_> = lies
            .map(|line| {
                let (name, text) = line.split_once(" | ").expect("setting | lie");
                let setting = Setting::find(name.trim()).expect("a setting");
                scope.spawn(move || (line, ratios(setting, text)))
            })
            .collect();
        let tried = tried.into_iter().map(|thread| thread.join().expect("it ends"));
        tried
            .inspect(|it| println!("{it:?}"))
            .filter(|(_, it)| it[0] > LOSS_MAX || it[1] > GAIN_MAX)
            .collect()
    });
    assert!(worse.is_empty(), "{worse:#?}");
}
