//! HTTP frameworks over [`rc3_h3`]: tower services such as an axum `Router` or the servers that tonic generates, and a
//! client that is a tower service, for requests or as the channel of a tonic client.
//!
//! [`serve`] answers the requests of an rc3 endpoint with a service per connection; [`serve_connection`] does so for one
//! connection, of rc3 or of quinn. A [`Client`] sends requests over one connection. Bodies stream in both directions,
//! with trailers, and are not buffered: a body is read as fast as its receiver takes it.
//!
//! # Errors of bodies
//!
//! | what fails | what the other side gets |
//! |---|---|
//! | the service | `H3_INTERNAL_ERROR` (RFC 9114 §8.1) |
//! | the body that a service or a client sends | `H3_INTERNAL_ERROR` |
//! | the service panics, or the response is dropped | `H3_REQUEST_CANCELLED` |
//! | a request body is dropped before its end | `H3_NO_ERROR`, and the response (RFC 9114 §4.1) |
//! | a response body is dropped before its end | `H3_REQUEST_CANCELLED` |
//! | a malformed message is received | `H3_MESSAGE_ERROR`, in both directions |
//! | a request after the shutdown began | `H3_REQUEST_REJECTED`: safe to send again |
//!
//! A reset or a lost connection is an error of the body that was being received, so a part is never taken for the whole.
//!
//! # Limits
//!
//! A header may have 16 KiB; a larger one is answered with status 431, and beyond 64 KiB its request is reset with
//! `H3_EXCESSIVE_LOAD` before it is stored. A connection has as many requests at once as its transport allows
//! (`max_concurrent_bidi_streams`), and an endpoint 1024 connections unless [`Settings`] change that. A service learns
//! that its client has cancelled a request when it next reads or writes a body.
//!
//! A malformed message (RFC 9114 §4.1.2) is reset with `H3_MESSAGE_ERROR`. A service gets none that is malformed by its
//! header; one that is malformed by its length or its trailers is an error of its body, and is not answered.
//!
//! Over a connection of quinn both are left to h3, which stores a frame whole, whatever its length, and accepts many
//! malformed messages. What is dropped before its end is stopped with code 0. Do not serve strangers over it.
#![forbid(unsafe_code)]

mod body;
mod client;
mod outgoing;
mod requests;
mod server;
mod service;
mod transport;

pub use rc3_h3;

pub use self::{
    body::Body,
    client::Client,
    outgoing::SendError,
    requests::serve_connection,
    server::{Settings, serve},
    service::HttpService,
    transport::{Receiver, Streams, Transport},
};

/// Most bytes of a header that is received, as the other side counts them (RFC 9114 §4.2.2).
const FIELD_SECTION_MAX: u64 = 16 * 1024;

/// An error of a service or of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
