//! Verified file transfer: `rc3 recv` prints a ticket, `rc3 send` takes it.
//!
//! The conversation is in [`message`], who may hold it in [`ticket`] and [`identity`], where files may go in [`paths`] and
//! [`destination`]. Content goes raw, one stream per file; the receiver writes every chunk where it belongs as it
//! comes, tail first or head first, so it holds no reassembly memory.

pub mod destination;
pub mod error;
pub mod identity;
pub mod manifest;
pub mod message;
pub mod paths;
pub mod progress;
pub mod ticket;
