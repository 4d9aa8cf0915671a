//! `rc3-lab sim`: the experiments of the papers and of the paths of today, run in the simulator, and their results.
//!
//! A [`catalogue`] entry or a file becomes worlds; [`work`] runs them on an [`engine`], each of them once
//! ([`shared`]); [`results`] pools their flows, [`sampled`] has the samples of a link, [`links`] what links carried;
//! [`compare`] compares with printed figures; [`table`], [`figures`] and [`report`] write it down, [`fingerprint`] shows later
//! whether it still holds, and [`coverage`] lists what of the papers there is. [`today`] compares schemes flow by flow, and
//! [`shard`] spreads worlds over machines. [`args`] is the command line.

pub(crate) mod args;
pub mod catalogue;
mod compare;
pub mod coverage;
mod engine;
pub mod experiment;
mod figures;
mod fingerprint;
mod links;
mod pairs;
mod progress;
pub mod report;
mod results;
mod run;
mod sampled;
mod shard;
mod shared;
pub mod simulator;
pub(crate) mod table;
mod today;
mod trace;
mod work;

#[cfg(test)]
mod tests;

use rc3_cli::{exit::CommandExit, output};
use rc3_sim::registry::Registry;

use self::args::SimCommand;
use crate::NAME;

/// Runs the command, with the names of `registry` in scenario files.
pub(crate) fn run(arguments: SimCommand, registry: &Registry) -> CommandExit {
    match run::run(arguments, registry) {
        Ok(printed) => CommandExit::of(NAME, printed),
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            if error.is_usage() { CommandExit::Usage } else { CommandExit::Failure }
        }
    }
}
