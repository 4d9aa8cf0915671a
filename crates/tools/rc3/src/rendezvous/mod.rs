//! A rendezvous for a sender and a receiver of which neither can be reached: `rc3 meet` runs anywhere, `rc3 recv --meet`
//! prints a code, `rc3 send` takes it.
//!
//! ```text
//!   host (recv)          guest (send)       `visit`: from the port that carries the transfer
//!        \                 /
//!         serve: rooms, relay               numbers, opaque messages, datagrams of pairs
//! ```
//!
//! What both say goes through `secret`: the rendezvous learns addresses, times and lengths, and neither names nor
//! content. With what they have said they meet as `rc3 copy` does: `crate::transfer::direct`.

pub mod code;
pub(crate) mod guest;
pub(crate) mod host;
mod message;
mod relay;
mod rooms;
mod secret;
pub mod serve;
mod visit;
mod words;

pub use message::VERSION;

/// The usual UDP port of a rendezvous.
pub const PORT: u16 = 4435;
