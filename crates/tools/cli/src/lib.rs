//! Shared parts of this workspace's commands: exit codes ([`exit`]), output ([`output`]) and documentation
//! ([`manual`]).
#![forbid(unsafe_code)]

pub mod exit;
pub mod manual;
pub mod output;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
