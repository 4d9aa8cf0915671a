//! `rc3 sim`: the experiments of the papers, run in the simulator, and what they leave behind.
//!
//! A [`catalogue`] entry or a file becomes worlds; [`work`] runs them on an [`engine`], each of them once
//! ([`shared`]); [`results`] pools their flows, [`sampled`] has what was seen of a link; [`compare`] puts the printed figures beside; [`table`],
//! [`figures`] and [`report`] write it down.

pub mod catalogue;
pub mod compare;
pub mod document;
pub mod engine;
pub mod experiment;
pub mod figures;
pub mod picture;
pub mod progress;
pub mod report;
pub mod results;
pub mod sampled;
pub mod shared;
pub mod simulator;
pub mod table;
pub mod today;
pub mod trace;
pub mod work;

#[cfg(test)]
mod tests;
