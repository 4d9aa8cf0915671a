//! A few ratios of one commit, appended to a file that has those of earlier commits, and drawn.
//!
//! Each ratio is between two things measured in turn on the same machine, so that figures of different machines and days
//! can stand in one picture: rc3 to quinn, the simulator and the router to a hash, completion times to the ideal.

mod history;
mod ideal;
mod page;
mod ratios;
mod router;
mod simulator;
mod yardstick;

use std::{path::Path, process::Command};

use crate::net::transport::Result;

use self::history::{Entry, History};
use super::{args::NetTrendArgs, error::NetError};

/// Measures, appends to `folder/trend.csv`, and makes `folder/trend.svg` and `folder/trend.md` anew.
///
/// # Errors
/// If a file cannot be read or written, or a measurement fails.
pub fn trend(args: &NetTrendArgs) -> std::result::Result<(), NetError> {
    measure(&args.out, args.runs as usize, args.draw)
        .map_err(|error| NetError::Process { what: "trend".to_owned(), why: error.to_string() })
}

fn measure(folder: &Path, runs: usize, draw_only: bool) -> Result<()> {
    let mut history = History::read(&folder.join("trend.csv"))?;
    if !draw_only {
        let (commit, date) = head()?;
        for (measure, values) in ratios::measure(runs)? {
            let entry = Entry::new(&date, &commit, measure, values).ok_or("nothing was measured")?;
            println!("{entry}");
            history.add(entry);
        }
        history.write()?;
    }
    page::write(&history, folder)
}

/// The commit and its date. What is measured must be what it holds.
fn head() -> Result<(String, String)> {
    if !git(&["status", "--porcelain"])?.is_empty() {
        return Err("commit your changes first: figures name their commit".into());
    }
    let words = git(&["show", "--no-patch", "--format=%h %cs", "--abbrev=12", "HEAD"])?;
    let (commit, date) = words.trim().split_once(' ').ok_or("git names no commit")?;
    Ok((commit.to_owned(), date.to_owned()))
}

fn git(words: &[&str]) -> Result<String> {
    let output = Command::new("git").args(words).output()?;
    if !output.status.success() {
        return Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
