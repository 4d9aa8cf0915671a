//! `rc3 bench`: what rc3 gains over plain QUIC on the path between two hosts.
//!
//! [`plan`] is what both sides agree on, [`visit`] measures, [`listen`] answers. The visitor opens a control connection
//! and presents the plan; then every flow of the plan goes on its own connection, in order, each at most once. All
//! connections begin with the ticket's secret ([`message`]).

use rc3_net::VarInt;

pub mod error;
mod flow;
pub mod listen;
pub mod message;
pub mod outcome;
mod pace;
mod pattern;
pub mod picture;
pub mod plan;
pub mod progress;
pub mod report;
pub mod visit;
mod visitor;

/// Application protocol name on the connections.
pub const ALPN: &[u8] = b"rc3-bench/1";

/// Close code: done.
const DONE: VarInt = VarInt::from_u32(0);
/// Close code: the listener refuses the request, for the reason in the close.
const REFUSED: VarInt = VarInt::from_u32(4);
/// Close code: the secret is wrong.
const UNAUTHORISED: VarInt = VarInt::from_u32(5);
