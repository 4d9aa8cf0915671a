//! Shared parts of this workspace's commands: exit codes ([`exit`]), output ([`output`]), documentation ([`manual`])
//! and, with the feature `metrics`, an HTTP server for metrics (`metrics`).
#![forbid(unsafe_code)]

pub mod exit;
pub mod manual;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod output;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
