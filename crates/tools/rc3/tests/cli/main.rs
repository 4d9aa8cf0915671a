//! The command `rc3` as users run it. One binary: it links once, and its tests wait side by side.

mod asleep;
mod check;
mod copy;
mod demo;
mod identity;
mod listener;
#[cfg(unix)]
mod real_sshd;
mod service;
mod skip;
mod support;
mod transfer;
mod tunnel;
