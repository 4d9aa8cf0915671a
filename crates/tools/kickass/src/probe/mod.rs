//! `kickass probe`: which lengths of packets and of leading fragments survive a path (Kick-Ass §4.3, Figure 12).
//!
//! The [`sweep`] sends questions for each length: whole with Don't Fragment, and fragmented there in two. In IPv6 it
//! also sends one whole with a Fragment header, the kind of packet that signalling routers fragment. The [`listen`]ing
//! side answers each that arrives whole, and reports the length in which its leading fragment arrived. Both need raw
//! sockets, and so CAP_NET_RAW.

pub mod listen;
pub mod message;
pub mod question;
pub mod report;
pub mod sweep;
pub mod tally;
mod watch;
