//! Malformed requests of clients of rc3 and of quinn do not reach the router.

mod common;

use std::sync::atomic::Ordering;

use common::{Server, fetch, request, router::pattern, run};
use http::{Request, header};
use http_body_util::Full;
use rc3_adapters::{
    Client, SendError, Settings, Transport,
    rc3_h3::h3::error::{Code, StreamError},
};
use tower_service::Service;

fn with_field<B>(mut request: Request<B>, name: header::HeaderName, value: &'static str) -> Request<B> {
    request.headers_mut().append(name, header::HeaderValue::from_static(value));
    request
}

fn is_malformed(error: &SendError) -> bool {
    matches!(error, SendError::Stream(StreamError::RemoteTerminate { code: Code::H3_MESSAGE_ERROR, .. }))
}

/// Requests that h3 accepts, at either end.
async fn refused<T: Transport>(server: &Server, client: &mut Client<T>) {
    let (seen, failed) = (&server.seen, server.seen.failed.load(Ordering::Relaxed));
    let waiting = seen.waiting.load(Ordering::Relaxed);
    let post = || request("POST", "/length", Full::new(pattern(1000)));
    let two = with_field(with_field(post(), header::CONTENT_LENGTH, "1000"), header::CONTENT_LENGTH, "1");
    for malformed in [with_field(post(), header::TE, "gzip"), two] {
        let error = client.call(malformed).await.unwrap_err();
        assert!(is_malformed(&error), "{error:?}");
    }
    assert_eq!(seen.waiting.load(Ordering::Relaxed), waiting, "no handler has begun");

    for length in ["999", "1001"] {
        let error = client.call(with_field(post(), header::CONTENT_LENGTH, length)).await.unwrap_err();
        assert!(is_malformed(&error), "{length}: {error:?}");
    }
    assert_eq!(seen.failed.load(Ordering::Relaxed), failed + 2, "no handler got a whole body");

    let fine = with_field(with_field(post(), header::CONTENT_LENGTH, "1000"), header::TE, "trailers");
    assert!(client.call(fine).await.unwrap().status().is_success());
    assert!(fetch(client, "/transport").await.is_ok());
}

#[test]
fn malformed_requests_are_stream_errors_of_their_clients() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        refused(&server, &mut client).await;
        let (_quinn, mut plain) = server.quinn_client().await;
        refused(&server, &mut plain).await;
    });
}
