//! The application, by axum.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    routing::{get, post},
};
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use rc3_adapters::rc3_h3::rc3_net::Connection;
use tokio::sync::Notify;

/// What the application has seen, and what it waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Endless bodies that were dropped.
    pub(crate) dropped: Arc<AtomicU64>,
    /// Uploads that ended with an error.
    pub(crate) failed: Arc<AtomicU64>,
    /// Uploads that ended without one.
    pub(crate) whole: Arc<AtomicU64>,
    /// Requests that have begun to wait: for `go`, or for their bodies.
    pub(crate) waiting: Arc<AtomicU64>,
    pub(crate) go: Arc<Notify>,
}

pub(crate) fn router(seen: Seen) -> Router {
    Router::new()
        .route("/transport", get(transport))
        .route("/bytes/{count}", get(|Path(count): Path<usize>| async move { pattern(count) }))
        .route("/echo", post(|body: Body| async move { body }))
        .route("/length", post(length))
        .route("/early", post(early))
        .route("/unread", post(|| async { "not read" }))
        .route("/endless", get(endless))
        .route("/broken", get(broken))
        .route("/cut", get(cut))
        .route("/panic", get(panics))
        .route("/wait", get(wait))
        .route("/cookies", get(cookies))
        .route("/field", get(field))
        .route("/trailers", get(trailers))
        .with_state(seen)
}

/// `count` bytes that differ by position.
pub(crate) fn pattern(count: usize) -> Bytes {
    (0..count).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 11) as u8).collect()
}

async fn transport(Extension(connection): Extension<Connection>) -> &'static str {
    if connection.is_rc3() { "rc3" } else { "plain" }
}

async fn length(State(seen): State<Seen>, body: Body) -> Result<String, StatusCode> {
    seen.waiting.fetch_add(1, Ordering::Relaxed);
    match body.collect().await {
        Ok(body) => {
            seen.whole.fetch_add(1, Ordering::Relaxed);
            Ok(body.to_bytes().len().to_string())
        }
        Err(_) => {
            seen.failed.fetch_add(1, Ordering::Relaxed);
            Err(StatusCode::BAD_REQUEST)
        }
    }
}

/// Answers before the request's body begins.
async fn early(State(seen): State<Seen>, mut body: Body) -> &'static str {
    tokio::spawn(async move {
        if let Some(Ok(_)) = body.frame().await {
            seen.go.notify_one();
        }
    });
    "early"
}

/// Counts when it is dropped.
struct Dropped(Arc<AtomicU64>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

async fn endless(State(seen): State<Seen>) -> Body {
    let guard = Dropped(seen.dropped);
    Body::from_stream(stream::repeat_with(move || {
        let _alive = &guard;
        Ok::<_, io::Error>(Bytes::from_static(&[7; 16 * 1024]))
    }))
}

/// A body that fails after its first piece.
async fn broken() -> Body {
    let pieces = [Ok(pattern(1000)), Err(io::Error::other("the disk is gone"))];
    Body::from_stream(stream::iter(pieces).boxed())
}

/// The same, once the test wants it.
async fn cut(State(seen): State<Seen>) -> Body {
    let error = stream::once(async move {
        seen.go.notified().await;
        Err(io::Error::other("the disk is gone"))
    });
    Body::from_stream(stream::iter([Ok(pattern(1000))]).chain(error))
}

async fn panics() -> &'static str {
    panic!("a test asks for it")
}

/// The fields of this name, in order.
async fn cookies(headers: HeaderMap) -> String {
    format!("{:?}", headers.get_all(header::COOKIE).iter().collect::<Vec<_>>())
}

/// The field `x` of the request, in the response.
async fn field(headers: HeaderMap) -> [(&'static str, HeaderValue); 1] {
    [("x", headers["x"].clone())]
}

async fn trailers() -> Body {
    let trailers = HeaderMap::from_iter([("x".parse().unwrap(), HeaderValue::from_static("seven"))]);
    Body::new(Full::new(pattern(3000)).with_trailers(std::future::ready(Some(Ok(trailers)))))
}

async fn wait(State(seen): State<Seen>) -> &'static str {
    seen.waiting.fetch_add(1, Ordering::Relaxed);
    seen.go.notified().await;
    "late"
}
