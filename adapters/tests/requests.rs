//! One axum server answers clients of rc3 and of quinn.

mod common;

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use common::{Server, fetch, get, request, router::pattern, run, until};
use futures_util::FutureExt;
use http::{HeaderMap, Request, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use rc3_adapters::{
    Client, SendError, Settings, Transport,
    rc3_h3::{
        self,
        h3::{
            self,
            error::{Code, StreamError},
        },
        rc3_net,
    },
};
use tokio::sync::mpsc;
use tower_service::Service;

const SIZES: [usize; 4] = [0, 1, 100_000, 5_000_000];

/// Requests that every client must get answered.
async fn all<T: Transport>(client: &mut Client<T>) {
    for size in SIZES {
        let body = fetch(client, &format!("/bytes/{size}")).await.unwrap();
        assert!(body == pattern(size), "GET of {size} bytes");
        let echo = client.call(request("POST", "/echo", Full::new(pattern(size)))).await.unwrap();
        assert!(
            echo.into_body().collect().await.unwrap().to_bytes() == pattern(size),
            "POST of {size} bytes"
        );
    }
    assert_eq!(get(client, "/nowhere").await.unwrap().status(), StatusCode::NOT_FOUND);
    let unread = client.call(request("POST", "/unread", Full::new(pattern(5_000_000)))).await.unwrap();
    assert_eq!(unread.into_body().collect().await.unwrap().to_bytes(), "not read");
    with_trailers(client).await;
    with_cookies(client).await;
    both_ways(client).await;
}

/// Clients may split cookies, but applications know one field (RFC 9114 §4.2.1).
async fn with_cookies<T: Transport>(client: &mut Client<T>) {
    let mut split = request("GET", "/cookies", Full::<Bytes>::default());
    for cookie in ["a=1", "b=2", "c=3"] {
        split.headers_mut().append(header::COOKIE, header::HeaderValue::from_static(cookie));
    }
    let seen = client.call(split).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(seen.to_bytes(), r#"["a=1; b=2; c=3"]"#);
}

async fn with_trailers<T: Transport>(client: &mut Client<T>) {
    let trailers = HeaderMap::from_iter([(header::ETAG, "\"seven\"".parse().unwrap())]);
    let body = Full::new(pattern(3000)).with_trailers(std::future::ready(Some(Ok(trailers.clone()))));
    let echo = client.call(request("POST", "/echo", body)).await.unwrap().into_body();
    let echo = echo.collect().await.unwrap();
    assert_eq!(echo.trailers(), Some(&trailers));
    assert_eq!(echo.to_bytes(), pattern(3000));
}

/// Each piece returns before the next one is sent.
async fn both_ways<T: Transport>(client: &mut Client<T>) {
    let (sender, body) = channel::<Infallible>();
    let mut echo = client.call(request("POST", "/echo", body)).await.unwrap().into_body();
    for size in [1, 50_000, 3] {
        sender.send(Ok(Frame::data(pattern(size)))).unwrap();
        let mut got = Vec::new();
        while got.len() < size {
            got.extend_from_slice(&echo.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!(got, pattern(size));
    }
    drop(sender);
    assert!(echo.frame().await.is_none());
}

type Pieces<E> = mpsc::UnboundedSender<Result<Frame<Bytes>, E>>;

/// A body, and what sends its pieces.
fn channel<E: Send + 'static>() -> (Pieces<E>, impl http_body::Body<Data = Bytes, Error = E> + Send) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (sender, StreamBody::new(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx))))
}

#[test]
fn one_server_answers_rc3_and_plain_clients() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, connection, mut client) = server.rc3_client().await;
        assert_eq!(fetch(&mut client, "/transport").await.unwrap(), "rc3");
        let (_quinn, mut plain) = server.quinn_client().await;
        assert_eq!(fetch(&mut plain, "/transport").await.unwrap(), "plain");
        tokio::join!(all(&mut client), all(&mut plain));
        let stats = connection.stats();
        assert!(connection.is_rc3() && stats.rc3);
        assert!(stats.received.rlp_bytes.iter().any(|bytes| *bytes > 0), "RLP carries responses: {stats:?}");
        assert!(stats.sent.levels.iter().any(|level| level.bytes > 0), "RLP carries requests: {stats:?}");
    });
}

fn reset(error: &SendError) -> Option<Code> {
    match error {
        SendError::Stream(StreamError::RemoteTerminate { code, .. }) => Some(*code),
        _ => None,
    }
}

#[test]
fn a_response_that_fails_is_not_taken_for_a_whole_one() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let broken = fetch(&mut client, "/broken").await.unwrap_err();
        assert_eq!(reset(&broken), Some(Code::H3_INTERNAL_ERROR), "{broken:?}");
        let panicked = fetch(&mut client, "/panic").await.unwrap_err();
        assert_eq!(reset(&panicked), Some(Code::H3_REQUEST_CANCELLED), "{panicked:?}");
        // The connection serves further requests.
        assert_eq!(fetch(&mut client, "/transport").await.unwrap(), "rc3");
    });
}

#[test]
fn a_request_that_fails_is_an_error_of_its_handler() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let (sender, body) = channel();
        sender.send(Ok(Frame::data(pattern(1000)))).unwrap();
        let asking = tokio::spawn(client.call(request("POST", "/length", body)));
        until(|| server.seen.waiting.load(Ordering::Relaxed) == 1).await;
        sender.send(Err("the disk is gone")).unwrap();
        assert_eq!(asking.await.unwrap().unwrap().status(), StatusCode::BAD_REQUEST);
        assert_eq!(server.seen.failed.load(Ordering::Relaxed), 1);
    });
}

/// The reset may overtake the header, so the server may have no request.
#[test]
fn a_request_that_fails_at_once_is_the_only_one() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        for _ in 0..20 {
            let (sender, body) = channel();
            sender.send(Err("there is no disk")).unwrap();
            match client.call(request("POST", "/length", body)).await {
                Ok(response) => assert_eq!(response.status(), StatusCode::BAD_REQUEST),
                Err(error) => assert_eq!(reset(&error), Some(Code::H3_REQUEST_CANCELLED), "{error:?}"),
            }
        }
        assert_eq!(fetch(&mut client, "/transport").await.unwrap(), "rc3");
    });
}

#[test]
fn a_response_that_nobody_reads_ends_its_body_and_its_upload() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let mut body = get(&mut client, "/endless").await.unwrap().into_body();
        assert!(body.frame().await.unwrap().is_ok());
        drop(body);
        until(|| server.seen.dropped.load(Ordering::Relaxed) == 1).await;

        let (sender, body) = channel::<Infallible>();
        let echo = client.call(request("POST", "/echo", body)).await.unwrap();
        assert!(!sender.is_closed());
        drop(echo);
        sender.closed().await;
    });
}

#[test]
fn a_body_that_is_dropped_while_a_read_is_pending_ends_its_upload() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let (_quinn, mut plain) = server.quinn_client().await;
        unread(&mut client).await;
        unread(&mut plain).await;
    });
}

/// h3 reads ahead: a read is also pending when there was a piece.
async fn unread<T: Transport>(client: &mut Client<T>) {
    for is_awaited in [false, true] {
        let (sender, body) = channel::<Infallible>();
        sender.send(Ok(Frame::data(pattern(1000)))).unwrap();
        let mut echo = client.call(request("POST", "/echo", body)).await.unwrap().into_body();
        assert!(echo.frame().await.unwrap().is_ok());
        if is_awaited {
            while echo.frame().now_or_never().is_some() {}
        }
        drop(echo);
        sender.closed().await;
    }
}

#[test]
fn a_request_that_is_dropped_ends_its_upload() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let (_quinn, mut plain) = server.quinn_client().await;
        dropped(&server, &mut client).await;
        dropped(&server, &mut plain).await;
    });
}

async fn dropped<T: Transport>(server: &Server, client: &mut Client<T>) {
    let waiting = server.seen.waiting.load(Ordering::Relaxed);
    let (sender, body) = channel::<Infallible>();
    let asking = tokio::spawn(client.call(request("POST", "/length", body)));
    until(|| server.seen.waiting.load(Ordering::Relaxed) > waiting).await;
    assert!(!sender.is_closed());
    asking.abort();
    sender.closed().await;
    assert!(asking.await.unwrap_err().is_cancelled());
}

/// On one thread: its upload has not begun.
#[test]
fn a_request_that_is_dropped_at_once_is_not_taken_for_a_whole_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let (_quinn, mut plain) = server.quinn_client().await;
        for _ in 0..10 {
            dropped_at_once(&mut client).await;
            dropped_at_once(&mut plain).await;
        }
        assert_eq!(server.seen.whole.load(Ordering::Relaxed), 0);
    });
}

async fn dropped_at_once<T: Transport>(client: &mut Client<T>) {
    let (_sender, body) = channel::<Infallible>();
    assert!(client.call(request("POST", "/length", body)).now_or_never().is_none());
    fetch(client, "/transport").await.unwrap();
}

#[test]
fn a_request_with_a_wrong_address_is_the_only_one_that_fails() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let mut asking = client.clone();
        let late = tokio::spawn(async move { fetch(&mut asking, "/wait").await });
        until(|| server.seen.waiting.load(Ordering::Relaxed) == 1).await;

        let mut other = request("GET", "/transport", Full::<Bytes>::default());
        other.headers_mut().insert(header::HOST, "other".parse().unwrap());
        assert!(client.call(other).await.unwrap().status().is_success());
        let nowhere = Request::get("/transport").body(Full::<Bytes>::default()).unwrap();
        let error = client.call(nowhere).await.unwrap_err();
        assert!(matches!(error, SendError::NoAuthority), "{error:?}");
        server.seen.go.notify_one();
        assert_eq!(late.await.unwrap().unwrap(), "late");
    });
}

#[test]
fn bodies_under_way_outlive_the_client() {
    run(async {
        let server = Server::start(Settings::default());
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let response = get(&mut client, "/bytes/5000000").await.unwrap();
        drop(client);
        assert!(response.into_body().collect().await.unwrap().to_bytes() == pattern(5_000_000));

        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let (sender, body) = channel::<Infallible>();
        let early = client.call(request("POST", "/early", body)).await.unwrap();
        drop(client);
        assert_eq!(early.into_body().collect().await.unwrap().to_bytes(), "early");
        sender.send(Ok(Frame::data(pattern(1000)))).unwrap();
        server.seen.go.notified().await;
    });
}

/// A server may send other responses before that to the request (RFC 9114 §4.1).
#[test]
fn interim_responses_are_not_the_response() {
    run(async {
        let identity = common::identity::Identity::new().unwrap();
        let config = rc3_net::ServerConfig::with_crypto(Arc::new(identity.server.clone()));
        let server = rc3_net::Endpoint::server(config, ([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let mut http = h3::server::Connection::new(rc3_h3::Connection::new(connection)).await.unwrap();
            let (_, mut stream) = http.accept().await.unwrap().unwrap().resolve_request().await.unwrap();
            for status in [100, 103, 203] {
                let response = http::Response::builder().status(status).body(()).unwrap();
                stream.send_response(response).await.unwrap();
            }
            stream.send_data(pattern(1000)).await.unwrap();
            stream.finish().await.unwrap();
            let _ = http.accept().await;
        });
        let config = common::client_config(&identity);
        let endpoint = common::endpoint();
        let connection = endpoint.connect_with(config, address, "localhost").unwrap().await.unwrap();
        let mut client = Client::new(rc3_h3::Connection::new(connection)).await.unwrap();
        let response = get(&mut client, "/").await.unwrap();
        assert_eq!(response.status(), 203);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), pattern(1000));
        drop(client);
        serving.await.unwrap();
    });
}
