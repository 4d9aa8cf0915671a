//! HTTP/3 over rc3: the transport traits of the crate [`h3`] for [`rc3_net`].
//!
//! Pass a [`Connection`] to `h3::server` or `h3::client` where a program with quinn passes that of `h3-quinn`. The rest
//! of the program is the same. rc3 sends large requests and responses in the first round trip. With a peer that does
//! not support rc3, the connection is plain HTTP/3; [`rc3_net::Connection::is_rc3`] distinguishes the two.
//!
//! The TLS settings of both sides need the protocol name [`ALPN`]. rc3-net offers its own variant before it.
//!
//! ```
//! use rc3_h3::{bytes::Bytes, h3};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (client_config, server_config) = rc3_sim::identity::identity(&["h3"]);
//! let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
//! let address = server.local_addr()?;
//! let serving = tokio::spawn(async move {
//!     let connection = server.accept().await.expect("the endpoint is open").await?;
//!     let mut http = h3::server::Connection::new(rc3_h3::Connection::new(connection)).await?;
//!     while let Ok(Some(request)) = http.accept().await {
//!         let (request, mut stream) = request.resolve_request().await?;
//!         stream.send_response(http::Response::new(())).await?;
//!         stream.send_data(Bytes::from(format!("you asked for {}", request.uri().path()))).await?;
//!         stream.finish().await?;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let endpoint = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
//! let connection = endpoint.connect_with(client_config, address, "rc3.test")?.await?;
//! assert!(connection.is_rc3());
//! let (mut driver, mut http) = h3::client::new(rc3_h3::Connection::new(connection)).await?;
//! let driving = tokio::spawn(async move { driver.wait_idle().await });
//!
//! let request = http::Request::get("https://rc3.test/weather").body(())?;
//! let mut stream = http.send_request(request).await?;
//! stream.finish().await?;
//! assert_eq!(stream.recv_response().await?.status(), 200);
//! let mut body = Vec::new();
//! while let Some(piece) = stream.recv_data().await? {
//!     body.extend_from_slice(rc3_h3::bytes::Buf::chunk(&piece));
//! }
//! assert_eq!(body, b"you asked for /weather");
//!
//! // The last sender closes the connection.
//! drop((http, stream));
//! driving.await?;
//! serving.await?.map_err(|error| error.to_string())?;
//! # Ok(()) }
//! ```
//!
//! # Closing
//!
//! h3 closes the connection when its server is dropped, and data in flight is lost. After
//! `h3::server::Connection::shutdown`, continue to call `accept` until the client closes, with a time limit of your own.
//! Call `shutdown(1)` and reject the request that h3 may then still accept: what `shutdown(0)` announces as not processed
//! includes the last request accepted, which a client may then send twice (RFC 9114 §5.2).
//!
//! # What a peer may send
//!
//! h3 0.0.8 stores a frame until it is whole, whatever its length, and accepts messages that are malformed. The streams
//! of this crate check what arrives before h3 sees it:
//!
//! | what arrives | what happens |
//! |---|---|
//! | a header larger than [`Connection::max_field_section_size`] | the stream is reset: `H3_EXCESSIVE_LOAD` |
//! | another frame of more than 4 KiB, except DATA and unknown ones | the connection is closed: `H3_EXCESSIVE_LOAD` |
//! | unknown frames of any length | skipped, not stored |
//! | a malformed message (RFC 9114 §4.1.2), also by its length | the stream is reset: `H3_MESSAGE_ERROR` |
//! | a stream that ends inside of a frame | the connection is closed: `H3_FRAME_ERROR` (RFC 9114 §7.1) |
//!
//! The application gets an error that names the cause; of a request with a malformed header it gets nothing. One rule
//! is relaxed: a CONNECT request may have `:scheme` and `:path`, because h3's own clients send them.
//!
//! # Cancelled messages
//!
//! A sending stream that is dropped without `finish` ends normally, as with quinn. In three cases it is reset with
//! `H3_REQUEST_CANCELLED` instead: before its first frame, inside of a frame, and when its task panics. Otherwise the
//! peer would close the whole connection, or take the message for a complete one.
#![forbid(unsafe_code)]

mod bidi_stream;
mod connection;
mod error;
mod exchange;
mod guard;
mod open_streams;
mod recv_stream;
mod repeat;
mod send_stream;

pub use bytes;
pub use h3;
pub use rc3_net;

pub use self::{
    bidi_stream::BidiStream, connection::Connection, open_streams::OpenStreams, recv_stream::RecvStream,
    send_stream::SendStream,
};

/// The name of HTTP/3 in TLS (RFC 9114 §3.1), for `alpn_protocols` of rustls settings.
pub const ALPN: &[u8] = b"h3";

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
