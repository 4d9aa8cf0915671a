//! What a proxy relies on, beyond whole messages: interim and early responses, tunnels, refusals that it may retry, limits
//! of headers, and the end of a connection.

use std::sync::atomic::Ordering;

use crate::common::{
    Http,
    app::{FRAME, Seen, answer},
    ask, client,
    ends::{self, Ends},
    get, pattern,
    raw::{self, DATA, SETTINGS, frame, headers, varint},
    request, run,
};
use bytes::{Buf, Bytes};
use h3::{
    error::{Code, StreamError},
    quic,
    server::{self, RequestStream},
};
use http::{Method, Request, Response};
use quinn::VarInt;
use rc3_h3::Connection;

type Stream<C> = RequestStream<<C as quic::OpenStreams<Bytes>>::BidiStream, Bytes>;

/// The server's end, and its first request.
async fn accept_one<C: Http>(quic: C) -> (server::Connection<C, Bytes>, Request<()>, Stream<C>) {
    let mut http = server::Connection::new(quic).await.unwrap();
    let first = http.accept().await.unwrap().expect("a request");
    let (request, stream) = first.resolve_request().await.unwrap();
    (http, request, stream)
}

fn with_status(status: u16) -> Response<()> {
    Response::builder().status(status).body(()).unwrap()
}

/// A response after two interim ones, then the trailers of an empty body.
async fn interim<C: Http, S: Http>(quic_client: C, quic_server: S) {
    let serving = tokio::spawn(async move {
        let (mut http, _, mut stream) = accept_one(quic_server).await;
        for status in [100, 103, 200] {
            stream.send_response(with_status(status)).await.unwrap();
        }
        stream.send_data(pattern(3000)).await.unwrap();
        stream.finish().await.unwrap();
        answer(http.accept().await.unwrap().expect("another"), Seen::default()).await.unwrap();
        let _ = http.accept().await;
    });
    let mut sender = client(quic_client).await;
    let mut stream = sender.send_request(request("GET", "/")).await.unwrap();
    stream.finish().await.unwrap();
    for status in [100, 103, 200] {
        assert_eq!(stream.recv_response().await.unwrap().status(), status);
    }
    let mut body = Vec::new();
    while let Some(piece) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(piece.chunk());
    }
    assert_eq!(body, pattern(3000));
    let trailers = http::HeaderMap::from_iter([(http::header::ETAG, "\"seven\"".parse().unwrap())]);
    let echo = ask::<C>(&mut sender, request("POST", "/echo"), Bytes::new(), Some(trailers.clone())).await;
    assert_eq!(echo.unwrap().trailers, Some(trailers));
    drop((stream, sender));
    serving.await.unwrap();
}

#[test]
fn interim_responses_precede_the_response() {
    run(async {
        let Ends { client, server, .. } = &ends::rc3(|_| {}).await;
        interim(Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_client().await;
        interim(h3_quinn::Connection::new(client.clone()), Connection::new(server.clone())).await;
        let Ends { client, server, .. } = &ends::quinn_server().await;
        interim(Connection::new(client.clone()), h3_quinn::Connection::new(server.clone())).await;
    });
}

/// RFC 9114 §4.4: the request has no scheme and no path, and what follows belongs to the tunnel.
#[test]
fn connect_makes_a_tunnel() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let quic = Connection::new(server.clone());
        let serving = tokio::spawn(async move {
            let (_http, request, stream) = accept_one(quic).await;
            let (mut send, mut recv) = stream.split();
            send.send_response(with_status(200)).await.unwrap();
            while let Some(mut piece) = recv.recv_data().await.unwrap() {
                send.send_data(piece.copy_to_bytes(piece.remaining())).await.unwrap();
            }
            send.finish().await.unwrap();
            request
        });
        let _control = raw::control(client).await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(&headers(&[(":method", "CONNECT"), (":authority", "rc3.test:25")])).await.unwrap();
        let mut got = Vec::new();
        for piece in [&b"HELO"[..], b"QUIT"] {
            send.write_all(&frame(DATA, piece)).await.unwrap();
            while !got.ends_with(piece) {
                got.extend_from_slice(&recv.read_chunk(1 << 16, true).await.unwrap().expect("an echo").bytes);
            }
        }
        send.finish().unwrap();
        let request = serving.await.unwrap();
        assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::CONNECT, "rc3.test:25"));
    });
}

/// RFC 9114 §4.3.1.
#[test]
fn options_may_ask_for_the_whole_server() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let accepting = accept_one(Connection::new(server.clone()));
        let (_control, (mut send, _recv)) = (raw::control(client).await, client.open_bi().await.unwrap());
        send.write_all(&headers(&raw::request("OPTIONS", "*", &[]))).await.unwrap();
        let (_http, request, _stream) = accepting.await;
        assert_eq!((request.method(), request.uri().path()), (&Method::OPTIONS, "*"));
    });
}

/// A client may send these again, elsewhere: nothing has been done for them (RFC 9114 §4.1.1, §5.2).
#[test]
fn requests_after_a_goaway_are_rejected_not_lost() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let quic = Connection::new(server.clone());
        let seen = Seen::default();
        let app = seen.clone();
        tokio::spawn(async move {
            let (mut http, _, _first) = accept_one(quic).await;
            http.shutdown(0).await.unwrap();
            while let Ok(Some(late)) = http.accept().await {
                tokio::spawn(answer(late, app.clone()));
            }
        });
        let _control = raw::control(client).await;
        // The server announces its end during the first request; this client does not look.
        let (mut first, recv) = client.open_bi().await.unwrap();
        first.write_all(&headers(&raw::request("POST", "/echo", &[]))).await.unwrap();
        let (mut late, refused) = client.open_bi().await.unwrap();
        let _ = late.write_all(&headers(&raw::request("GET", "/bytes/10", &[]))).await;
        let code = Code::H3_REQUEST_REJECTED.value();
        assert_eq!(raw::answer(refused).await, Err(code));
        assert_eq!(late.stopped().await.unwrap().map(VarInt::into_inner), Some(code));
        assert_eq!(seen.requests.load(Ordering::Relaxed), 0);
        drop((first, recv));
    });
}

#[test]
fn a_rejected_request_is_an_error_of_its_own() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::quinn_server().await;
        let mut sender = client(Connection::new(connection.clone())).await;
        let server = server.clone();
        let serving = tokio::spawn(async move {
            let _control = raw::control(&server).await;
            let code = VarInt::from_u64(Code::H3_REQUEST_REJECTED.value()).unwrap();
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            send.reset(code).unwrap();
            recv.stop(code).unwrap();
            let (mut send, _recv) = server.accept_bi().await.unwrap();
            send.write_all(&[headers(&[(":status", "200")]), frame(DATA, b"again")].concat()).await.unwrap();
            send.finish().unwrap();
            server.closed().await;
        });
        let error = get::<Connection>(&mut sender, "/").await.unwrap_err();
        let rejected = matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_REJECTED, .. });
        assert!(rejected, "{error:?}");
        assert_eq!(get::<Connection>(&mut sender, "/").await.unwrap().body, &b"again"[..]);
        drop(sender);
        serving.await.unwrap();
    });
}

/// The whole answer comes before the end of the request, which the server then stops (RFC 9114 §4.1).
#[test]
fn an_early_response_is_not_lost_with_its_request() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::quinn_server().await;
        let server = server.clone();
        let serving = tokio::spawn(async move {
            let _control = raw::control(&server).await;
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            let body = frame(DATA, &pattern(100_000));
            send.write_all(&[headers(&[(":status", "413")]), body].concat()).await.unwrap();
            recv.stop(VarInt::from_u64(Code::H3_NO_ERROR.value()).unwrap()).unwrap();
            send.finish().unwrap();
            server.closed().await;
        });
        let mut sender = client(Connection::new(connection.clone())).await;
        let asked = request("POST", "/");
        let answer = ask::<Connection>(&mut sender, asked, pattern(20_000_000), None).await.unwrap();
        assert_eq!((answer.head.status().as_u16(), answer.body), (413, pattern(100_000)));
        drop(sender);
        serving.await.unwrap();
    });
}

/// The other way: a server of rc3 has answered, and wants no more.
#[test]
fn a_server_stops_the_rest_of_a_request_without_an_error() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let quic = Connection::new(server.clone());
        tokio::spawn(async move {
            let (mut http, _, mut stream) = accept_one(quic).await;
            stream.send_response(with_status(413)).await.unwrap();
            stream.finish().await.unwrap();
            stream.stop_sending(Code::H3_NO_ERROR);
            let _ = http.accept().await;
        });
        let _control = raw::control(client).await;
        let (mut send, recv) = client.open_bi().await.unwrap();
        send.write_all(&headers(&raw::request("POST", "/", &[]))).await.unwrap();
        while send.write_all(&frame(DATA, &[7; FRAME])).await.is_ok() {}
        let stopped = send.stopped().await.unwrap().map(VarInt::into_inner);
        assert_eq!(stopped, Some(Code::H3_NO_ERROR.value()));
        assert!(raw::answer(recv).await.is_ok_and(|answer| !answer.is_empty()));
    });
}

/// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §4.2.2), which both sides announce and keep to.
#[test]
fn a_header_beyond_the_limit_of_the_server_is_not_sent() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::quinn_server().await;
        let mut sender = client(Connection::new(connection.clone())).await;
        let mut control = server.open_uni().await.unwrap();
        let limit = frame(SETTINGS, &[varint(6), varint(1000)].concat());
        control.write_all(&[varint(0), limit].concat()).await.unwrap();
        let large = || {
            let mut large = request("GET", "/");
            large.headers_mut().insert("x", "y".repeat(2000).parse().unwrap());
            large
        };
        // Until the settings arrive, nothing limits it.
        let error = loop {
            if let Err(error) = sender.send_request(large()).await {
                break error;
            }
        };
        assert!(matches!(error, StreamError::HeaderTooBig { max_size: 1000, .. }), "{error:?}");
        sender.send_request(request("GET", "/")).await.expect("the connection goes on");
    });
}

/// A peer that does not keep to it: a client learns it by status 431, a server by a cancelled request.
#[test]
fn a_header_beyond_the_own_limit_ends_its_request_alone() {
    run(async {
        let large = "y".repeat(2000);
        let Ends { client: connection, server, .. } = &ends::quinn_client().await;
        let quic = Connection::new(server.clone());
        tokio::spawn(async move {
            let mut http: server::Connection<_, Bytes> =
                server::builder().max_field_section_size(1000).build(quic).await.unwrap();
            while let Ok(Some(resolver)) = http.accept().await {
                tokio::spawn(answer(resolver, Seen::default()));
            }
        });
        let mut sender = client(h3_quinn::Connection::new(connection.clone())).await;
        // Without the check of h3's client.
        let bytes = headers(&raw::request("GET", "/bytes/1", &[("x", &large)]));
        let refused = raw::ask(connection, &bytes).await.expect("it is answered");
        assert!(refused.windows(3).any(|part| part == HUFFMAN_431), "{refused:x?}");
        get::<h3_quinn::Connection>(&mut sender, "/bytes/1").await.expect("the connection goes on");

        let Ends { client: connection, server, .. } = &ends::quinn_server().await;
        let (mut driver, mut sender) = h3::client::builder()
            .max_field_section_size(1000)
            .build::<_, _, Bytes>(Connection::new(connection.clone()))
            .await
            .unwrap();
        let driving = tokio::spawn(async move { driver.wait_idle().await });
        let _control = raw::control(server).await;
        let mut stream = sender.send_request(request("GET", "/")).await.unwrap();
        let (mut send, _recv) = server.accept_bi().await.unwrap();
        send.write_all(&headers(&[(":status", "200"), ("x", &large)])).await.unwrap();
        let error = stream.recv_response().await.unwrap_err();
        assert!(matches!(error, StreamError::HeaderTooBig { .. }), "{error:?}");
        let stopped = send.stopped().await.unwrap().map(VarInt::into_inner);
        assert_eq!(stopped, Some(Code::H3_REQUEST_CANCELLED.value()));
        sender.send_request(request("GET", "/")).await.expect("the connection goes on");
        driving.abort();
    });
}

/// "431" in the code of RFC 7541, appendix B.
const HUFFMAN_431: [u8; 3] = [0x69, 0x90, 0xff];

/// A client announces its end during a request, which is answered; then the server is done (RFC 9114 §5.2).
#[test]
fn a_client_goes_away_after_its_requests() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let serving = tokio::spawn(serve_until_none(Connection::new(server.clone())));
        let mut control = raw::control(client).await;
        let (mut send, recv) = client.open_bi().await.unwrap();
        send.write_all(&headers(&raw::request("POST", "/echo", &[]))).await.unwrap();
        control.write_all(&frame(7, &varint(0))).await.unwrap();
        send.write_all(&frame(DATA, b"late")).await.unwrap();
        send.finish().unwrap();
        // Dropped, it would close.
        let (accepted, _http) = serving.await.unwrap();
        assert_eq!(accepted, 1);
        assert!(raw::answer(recv).await.unwrap().windows(4).any(|part| part == b"late"));
    });
}

/// How many requests were accepted before there were no more.
async fn serve_until_none(quic: Connection) -> (usize, server::Connection<Connection, Bytes>) {
    let mut http: server::Connection<_, Bytes> = server::Connection::new(quic).await.unwrap();
    let mut accepted = 0;
    while let Some(resolver) = http.accept().await.unwrap() {
        accepted += 1;
        tokio::spawn(answer(resolver, Seen::default()));
    }
    (accepted, http)
}
