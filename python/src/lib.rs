//! What the Python package `rc3` needs of Rust; its own modules make the interface for users of it.
//!
//! tokio and Python meet in two ways. An [`operation`] runs on tokio and reports to a callable, from a thread that may
//! wait for the interpreter. The thread of the event loop polls a [`stream`] and never waits; tokio wakes that loop by a
//! descriptor ([`wakeups`]), so that no task of tokio waits for the interpreter.

use pyo3::prelude::*;

mod failure;
mod listener;
mod operation;
mod receiver;
mod runtime;
mod stream;
mod tls;
mod transfer;
mod wakeups;

#[pymodule]
mod _rc3 {
    #[pymodule_export]
    use super::{
        listener::Listener,
        operation::Operation,
        receiver::Receiver,
        stream::{Stream, connect},
        transfer::transfer,
        wakeups::Wakeups,
    };
}
