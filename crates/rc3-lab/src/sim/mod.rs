//! `rc3-lab sim`: the experiments of the papers, run in the simulator, and what they leave behind.
//!
//! A [`catalogue`] entry or a file becomes worlds; [`work`] runs them on an [`engine`], each of them once
//! ([`shared`]); [`results`] pools their flows, [`sampled`] has what was seen of a link; [`compare`] puts the printed figures beside; [`table`],
//! [`figures`] and [`report`] write it down, [`fingerprint`] shows later whether it still holds, and [`coverage`] lists what
//! of the papers there is. [`args`] is what was typed, [`command`] what it means, and [`run`] does it.

pub mod args;
pub mod catalogue;
pub mod command;
pub mod compare;
pub mod coverage;
pub mod engine;
pub mod experiment;
pub mod figures;
pub mod fingerprint;
pub mod progress;
pub mod report;
pub mod results;
mod run;
pub mod sampled;
pub mod shared;
pub mod simulator;
pub mod table;
pub mod today;
pub mod trace;
pub mod work;

#[cfg(test)]
mod tests;

use rc3_cli::{exit::Exit, output};

use self::{args::SimCommand, command::Command};
use crate::NAME;

/// Does what was typed.
pub fn run(typed: SimCommand) -> Exit {
    match Command::resolve(typed) {
        Ok(command) => run::run(&command),
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            Exit::Usage
        }
    }
}
