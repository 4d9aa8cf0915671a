//! The codec, fragments, routers and endpoints as their users have them. One binary: it links once.
#![expect(clippy::disallowed_methods, reason = "tests need some instant to start from")]

mod common;
mod control_loop;
mod fragments;
mod offload;
mod router;
