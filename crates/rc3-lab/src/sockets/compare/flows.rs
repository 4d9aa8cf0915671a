//! Flows of several lengths through a bottleneck, each on a new connection.

use std::time::Duration;

use rc3_core::units::Rate;
use rc3_lab::sockets::{
    contenders::{Contender, Result, Service, Timed},
    quantity::parse_rate,
};
use rc3_text::units::{about_bytes, parse_time};

use crate::place::Place;

/// Content of a full packet of Ethernet: 20 bytes of IPv4 and 32 of TCP with time stamps are not.
const CONTENT: u64 = 1448;
const PACKET: u64 = 1500;

/// What all flows have to pass.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Bottleneck {
    /// Its rate, of IP packets.
    #[arg(long, value_parser = |text: &str| parse_rate(text).map(Rate::from))]
    rate: Rate,
    /// The round trip without any queue.
    #[arg(long, value_parser = parse_time)]
    rtt: Duration,
}

impl Bottleneck {
    /// Half a round trip, and the bytes in full packets at the rate.
    fn ideal(self, bytes: u64) -> Duration {
        let headers = bytes.div_ceil(CONTENT) * (PACKET - CONTENT);
        self.rtt / 2 + self.rate.time_for(bytes + headers)
    }
}

/// Runs all sizes of all contenders in turn and prints a table of medians.
pub(crate) fn compare(
    place: &Place,
    contenders: &[Contender],
    bottleneck: Bottleneck,
    sizes: &[u64],
    runs: usize,
) -> Result<()> {
    let mut ratios = vec![vec![Vec::new(); contenders.len()]; sizes.len()];
    for run in 1..=runs {
        for (&bytes, ratios) in sizes.iter().zip(&mut ratios) {
            for (contender, ratios) in contenders.iter().zip(ratios) {
                let printed = place.run((*contender).into(), Service::Clock, "time", &[bytes.to_string()])?;
                let seconds = serde_json::from_str::<Timed>(printed.trim())?.flow;
                let (name, size) = (contender.name(), about_bytes(bytes));
                eprintln!("run {run} of {runs}: {size} {name} {:.1} ms", seconds * 1e3);
                ratios.push(seconds / bottleneck.ideal(bytes).as_secs_f64());
            }
        }
    }
    print!("| size | ideal |");
    contenders.iter().for_each(|contender| print!(" {} |", contender.name()));
    println!("\n|---|---|{}", "---|".repeat(contenders.len()));
    for (&bytes, ratios) in sizes.iter().zip(&mut ratios) {
        print!("| {} | {:.1} ms |", about_bytes(bytes), bottleneck.ideal(bytes).as_secs_f64() * 1e3);
        ratios.iter_mut().for_each(|ratios| print!(" {} |", cell(ratios)));
        println!();
    }
    Ok(())
}

/// Median, and least and most.
fn cell(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    match ratios {
        [] => String::new(),
        [least, ..] => {
            let (least, most) = (*least, ratios[ratios.len() - 1]);
            format!("{:.2} ({least:.2} to {most:.2})", ratios[ratios.len() / 2])
        }
    }
}
