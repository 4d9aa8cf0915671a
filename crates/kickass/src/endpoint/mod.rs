//! The ends of a connection that routers tell rates (Kick-Ass §2.3), whatever transport they run.
//!
//! The receiver sees how long leading fragments are and tells the sender: [`Echo`] says when. The [`Sender`] is a
//! congestion controller with two modes, and decides which of them holds.

mod echo;
mod newreno;
mod sender;

pub use echo::Echo;
pub use sender::{Cause, Mode, Sender, SenderConfig};
