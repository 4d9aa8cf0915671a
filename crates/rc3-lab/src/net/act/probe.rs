//! Probes of lengths.

use std::{net::SocketAddr, time::Duration};

use kickass_tools::probe::{
    listen,
    sweep::{Plan, sweep},
};

use crate::sockets::contenders::Result;

/// Answers probes.
pub(super) fn answer(address: SocketAddr) -> Result<()> {
    let socket = listen::bind(Some(address), address.port())?;
    println!("ready");
    Ok(listen::serve(&socket)?)
}

/// Probes a path, and prints the result as one line of JSON.
pub(super) fn ask(target: SocketAddr, tries: u8, every: Duration) -> Result<()> {
    print!("{}", sweep(&Plan { target, tries, interval: every })?.json()?);
    Ok(())
}
