//! `rc3 sim`: the experiments of the papers and what they leave behind.

pub mod picture;
