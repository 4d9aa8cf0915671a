//! `rc3 tunnel` as users run it, over loopback.
#![cfg(unix)]

#[path = "../sshd/mod.rs"]
mod real_sshd;
#[path = "../transfer/skip.rs"]
mod skip;

mod forwards;
mod harness;
mod hostile;
mod keystrokes;
mod many;
mod pairing;
mod ssh;
mod stdio;
