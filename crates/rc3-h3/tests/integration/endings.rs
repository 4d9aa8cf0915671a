//! Requests that are cancelled, answers that break off, and connections that close.

use std::{sync::atomic::Ordering, time::Duration};

use crate::common::{
    Http,
    app::{FRAME, Seen, answer, serve},
    client,
    ends::{self, Ends},
    get, pattern, request, run, until,
};
use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use rc3_h3::Connection;
use tokio::sync::oneshot;

/// The client refuses the rest of an answer. The server's application learns the code, and the connection goes on.
async fn cancelled<C: Http, S: Http>(quic_client: C, quic_server: S) {
    let seen = Seen::default();
    tokio::spawn(serve(quic_server, seen.clone()));
    let mut sender = client(quic_client).await;
    let mut stream = sender.send_request(request("GET", "/endless")).await.unwrap();
    stream.recv_response().await.unwrap();
    assert!(stream.recv_data().await.unwrap().is_some_and(|piece| piece.has_remaining()));
    stream.stop_sending(Code::H3_REQUEST_CANCELLED);
    stream.stop_stream(Code::H3_REQUEST_CANCELLED);
    until(|| seen.refused.load(Ordering::Relaxed) == Code::H3_REQUEST_CANCELLED.value()).await;
    assert_eq!(get::<C>(&mut sender, "/bytes/5000").await.unwrap().body, pattern(5000));
}

#[test]
fn a_cancelled_request_reaches_the_application() {
    run(async {
        let Ends { client, server, .. } = &ends::rc3(|_| {}).await;
        cancelled(Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_client().await;
        cancelled(h3_quinn::Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_server().await;
        cancelled(Connection::new(client.clone()), h3_quinn::Connection::new(server.clone())).await;
    });
}

/// Reads an answer that breaks off, once it has; the number of its bytes, and the error. The reset may overtake all.
async fn broken<C: Http>(
    sender: &mut crate::common::Sender<C>,
    path: &str,
    broken_off: impl Future,
) -> (usize, StreamError) {
    let mut stream = sender.send_request(request("GET", path)).await.unwrap();
    stream.finish().await.unwrap();
    broken_off.await;
    if let Err(error) = stream.recv_response().await {
        return (0, error);
    }
    let mut read = 0;
    loop {
        match stream.recv_data().await {
            Ok(Some(piece)) => read += piece.remaining(),
            Ok(None) => panic!("{read} bytes look complete"),
            Err(error) => return (read, error),
        }
    }
}

fn is_cancelled(error: &StreamError) -> bool {
    matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED, .. })
}

#[test]
fn an_answer_whose_task_panics_is_not_complete() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::quinn_client().await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let mut sender = client(h3_quinn::Connection::new(connection.clone())).await;
        let (read, error) =
            broken::<h3_quinn::Connection>(&mut sender, "/panic", std::future::ready(())).await;
        assert!(read <= FRAME && is_cancelled(&error), "{error:?}");
        let after = get::<h3_quinn::Connection>(&mut sender, "/bytes/10").await.unwrap();
        assert_eq!(after.body, pattern(10));
    });
}

/// With quinn's stream the client would close the connection: its answer ends before its header.
#[test]
fn an_answer_dropped_before_it_began_leaves_the_connection() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::rc3(|_| {}).await;
        let quic = Connection::new(server.clone());
        let serving = tokio::spawn(async move {
            let mut http: h3::server::Connection<_, Bytes> = h3::server::Connection::new(quic).await.unwrap();
            drop(http.accept().await.unwrap().expect("a request"));
            while let Ok(Some(resolver)) = http.accept().await {
                tokio::spawn(answer(resolver, Seen::default()));
            }
        });
        let mut sender = client(Connection::new(connection.clone())).await;
        let error = get::<Connection>(&mut sender, "/bytes/10").await.unwrap_err();
        assert!(is_cancelled(&error), "{error:?}");
        assert_eq!(get::<Connection>(&mut sender, "/bytes/10").await.unwrap().body, pattern(10));
        drop(sender);
        serving.await.unwrap();
    });
}

/// With quinn's stream the peer would close the connection: a frame that ends early is an error of the connection.
#[test]
fn an_answer_aborted_inside_a_frame_leaves_the_connection() {
    run(async {
        // The frame of the answer is longer than the windows.
        let Ends { client: connection, server, .. } = &ends::rc3(small_windows).await;
        let (aborted, broken_off) = oneshot::channel();
        let serving = tokio::spawn(abort_first(Connection::new(server.clone()), aborted));
        let mut sender = client(Connection::new(connection.clone())).await;
        let (_, error) = broken::<Connection>(&mut sender, "/bytes/5000000", broken_off).await;
        assert!(is_cancelled(&error), "{error:?}");
        assert_eq!(get::<Connection>(&mut sender, "/bytes/10").await.unwrap().body, pattern(10));
        drop(sender);
        serving.await.unwrap();
    });
}

fn small_windows(transport: &mut rc3_net::TransportConfig) {
    transport.send_window(64 * 1024).receive_window((64u32 * 1024).into()).rlp_window(64 * 1024);
}

/// Aborts the first answer inside of its frame, and reports that.
async fn abort_first(quic: Connection, aborted: oneshot::Sender<()>) {
    let mut http: h3::server::Connection<_, Bytes> = h3::server::Connection::new(quic).await.unwrap();
    let mut aborted = Some(aborted);
    while let Ok(Some(resolver)) = http.accept().await {
        let answering = answer(resolver, Seen::default());
        if let Some(aborted) = aborted.take() {
            // The client does not read yet, so the frame cannot be sent whole.
            let whole = tokio::time::timeout(Duration::from_millis(200), answering).await;
            assert!(whole.is_err(), "the frame was sent whole");
            aborted.send(()).expect("the test waits");
        } else {
            tokio::spawn(answering);
        }
    }
}

/// The server announces its end during an answer: the answer arrives whole, a later request is refused.
async fn goes_away<C: Http, S: Http>(quic_client: C, quic_server: S) {
    let serving = tokio::spawn(async move {
        let mut http: h3::server::Connection<S, Bytes> =
            h3::server::Connection::new(quic_server).await.unwrap();
        let first = http.accept().await.unwrap().expect("a request");
        http.shutdown(0).await.unwrap();
        let answering = tokio::spawn(answer(first, Seen::default()));
        let end = http.accept().await;
        answering.await.unwrap().unwrap();
        // The client has closed without error, or a request after the announcement was rejected.
        assert!(end.map_or_else(|error| error.is_h3_no_error(), |request| request.is_none()));
    });
    let mut sender = client(quic_client).await;
    assert_eq!(get::<C>(&mut sender, "/bytes/2000000").await.unwrap().body, pattern(2_000_000));
    // The announcement travels on another stream. A request before it is rejected, and the server then closes.
    let error = loop {
        match sender.send_request(request("GET", "/bytes/1")).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert!(error.is_h3_no_error() || format!("{error:?}") == "RemoteClosing", "{error:?}");
    drop(sender);
    serving.await.unwrap();
}

#[test]
fn a_server_goes_away_after_its_answers() {
    run(async {
        let Ends { client, server, .. } = &ends::rc3(|_| {}).await;
        goes_away(Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_client().await;
        goes_away(h3_quinn::Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_server().await;
        goes_away(Connection::new(client.clone()), h3_quinn::Connection::new(server.clone())).await;
    });
}

#[test]
fn the_peer_learns_codes_of_http() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::rc3(|_| {}).await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        drop(client(Connection::new(connection.clone())).await);
        let rc3_net::ConnectionError::ApplicationClosed(close) = server.closed().await else {
            panic!("the client has closed");
        };
        assert_eq!(close.error_code.into_inner(), Code::H3_NO_ERROR.value());
    });
}
