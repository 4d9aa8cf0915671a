//! `rc3 tunnel` as users run it, over loopback.
#![cfg(unix)]

mod forwards;
pub(crate) mod harness;
mod hostile;
mod keystrokes;
mod many;
pub(crate) mod outages;
mod pairing;
mod ssh;
mod stdio;
