//! `rc3-lab sim`: the experiments of the papers and of the paths of today, run in the simulator, and their results.
//!
//! A [`catalogue`] entry or a file becomes worlds; [`work`] runs them on an [`engine`], each of them once
//! ([`shared`]); [`results`] pools their flows, [`sampled`] has the samples of a link, [`links`] what links carried;
//! [`compare`] compares with printed figures; [`table`], [`figures`] and [`report`] write it down, [`fingerprint`] shows later
//! whether it still holds, and [`coverage`] lists what of the papers there is. [`today`] compares schemes flow by flow, and
//! [`shard`] spreads worlds over machines. [`args`] is the command line.

pub mod args;
pub mod catalogue;
pub mod compare;
pub mod coverage;
pub mod engine;
pub mod experiment;
pub mod figures;
pub mod fingerprint;
pub mod links;
pub mod pairs;
pub mod progress;
pub mod report;
pub mod results;
mod run;
pub mod sampled;
pub mod shard;
pub mod shared;
pub mod simulator;
pub mod table;
pub mod today;
pub mod trace;
pub mod work;

#[cfg(test)]
mod tests;

use rc3_cli::{exit::CommandExit, output};
use rc3_sim::registry::Registry;

use self::args::SimCommand;
use crate::NAME;

/// Runs the command, with the names of `registry` in scenario files.
pub fn run(arguments: SimCommand, registry: &Registry) -> CommandExit {
    match run::run(arguments, registry) {
        Ok(printed) => CommandExit::of(NAME, printed),
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            if error.is_usage() { CommandExit::Usage } else { CommandExit::Failure }
        }
    }
}
