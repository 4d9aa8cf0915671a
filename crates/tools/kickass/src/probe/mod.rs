//! `kickass probe`: which lengths of packets and of leading fragments survive a path (Kick-Ass §4.3, Figure 12).
//!
//! The [`sweep`] sends a question per length, whole and with Don't Fragment, and cut there into two fragments; in IPv6
//! also whole with a Fragment header, which is what a router that tells rates finds and cuts. The [`listen`]ing side
//! answers each that arrives whole. Fragments need a raw socket, and so CAP_NET_RAW.

pub mod listen;
pub mod message;
mod question;
pub mod report;
pub mod sweep;
