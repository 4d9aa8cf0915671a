//! Endpoints of connections whose routers signal rates (Kick-Ass §2.3), for any transport.
//!
//! The receiver sees the lengths of leading fragments and reports them to the sender: [`Echo`] says when. The
//! [`Sender`] is a congestion controller with two modes and chooses between them.

mod echo;
mod newreno;
mod sender;

pub use echo::Echo;
pub use sender::{Cause, Mode, Sender, SenderConfig};
