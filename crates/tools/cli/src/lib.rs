//! What the commands of this workspace share: how they end ([`exit`]), how they speak ([`output`]), and how they are
//! documented ([`manual`]).
#![forbid(unsafe_code)]

pub mod exit;
pub mod manual;
pub mod output;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
