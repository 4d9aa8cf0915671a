//! Messages that are malformed (RFC 9114 §4.1.2): a stream error, and nothing of them reaches the application.

use std::sync::atomic::Ordering;

use crate::common::{
    app::{Seen, serve},
    client,
    ends::{self, Ends},
    get,
    raw::{self, DATA, Fields, UNKNOWN, frame, frame_header, headers, request},
    run,
};
use h3::error::Code;
use rc3_h3::Connection;

/// What a client of quinn may send after its head.
type Rest<'a> = &'a [u8];

/// Each of these requests is reset as malformed, none reaches the application, and the connection goes on.
fn refused(cases: &[(&str, Vec<u8>)]) {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let _control = raw::control(client).await;
        for (case, bytes) in cases {
            let answer = raw::ask(client, bytes).await;
            assert_eq!(answer, Err(Code::H3_MESSAGE_ERROR.value()), "{case}");
            assert_eq!(seen.requests.load(Ordering::Relaxed), 0, "{case}");
        }
        let fine = raw::ask(client, &headers(&request("GET", "/bytes/10", &[]))).await;
        assert!(fine.is_ok_and(|answer| !answer.is_empty()), "the connection serves other requests");
    });
}

/// Requests with these fields after the usual ones.
fn refused_fields(cases: &[Fields<'_>]) {
    let bytes = |fields| headers(&request("GET", "/bytes/1", fields));
    let cases: Vec<_> = cases.iter().map(|fields| (format!("{fields:?}"), bytes(fields))).collect();
    let cases: Vec<_> = cases.iter().map(|(case, bytes)| (case.as_str(), bytes.clone())).collect();
    refused(&cases);
}

#[test]
fn fields_of_http_1_connections_are_malformed() {
    refused_fields(&[
        &[("transfer-encoding", "chunked")],
        &[("connection", "close")],
        &[("keep-alive", "5")],
        &[("proxy-connection", "close")],
        &[("upgrade", "websocket")],
        &[("te", "gzip")],
        &[("te", "trailers, gzip")],
        &[("accept", "*/*"), ("transfer-encoding", "identity")],
    ]);
}

#[test]
fn names_and_values_that_http_does_not_allow_are_malformed() {
    refused_fields(&[
        &[("Accept", "*/*")],
        &[("x y", "1")],
        &[("", "1")],
        &[("x", "a\nb")],
        &[("x", "a\0b")],
        &[("x", "a\rb")],
        &[(":unknown", "1")],
    ]);
}

#[test]
fn pseudo_fields_that_are_late_repeated_or_of_responses_are_malformed() {
    let usual = request("GET", "/bytes/1", &[]);
    let late = [&usual[..2], &[("accept", "*/*")], &usual[2..]].concat();
    refused(&[("late", headers(&late))]);
    refused_fields(&[
        &[(":method", "POST")],
        &[(":path", "/other")],
        &[(":path", "/bytes/1")],
        &[(":scheme", "http")],
        &[(":authority", "elsewhere")],
        &[(":status", "200")],
    ]);
}

#[test]
fn heads_that_lack_a_pseudo_field_or_contradict_it_are_malformed() {
    let without = |name: &str| {
        let mut fields = request("GET", "/bytes/1", &[]);
        fields.retain(|field| field.0 != name);
        headers(&fields)
    };
    refused(&[
        ("no method", without(":method")),
        ("no scheme", without(":scheme")),
        ("no path", without(":path")),
        ("no authority", without(":authority")),
        ("empty path", headers(&request("GET", "", &[]))),
    ]);
    refused_fields(&[
        &[("host", "elsewhere")],
        &[("host", "rc3.test"), ("host", "elsewhere")],
        &[("host", "rc3.test"), ("host", "rc3.test")],
    ]);
}

#[test]
fn lengths_that_are_no_lengths_or_two_are_malformed() {
    refused_fields(&[
        &[("content-length", "+1")],
        &[("content-length", "-1")],
        &[("content-length", "0x1")],
        &[("content-length", "")],
        &[("content-length", "0, 0")],
        &[("content-length", "18446744073709551616")],
        &[("content-length", "0"), ("content-length", "1")],
        &[("content-length", "0"), ("content-length", "0")],
    ]);
}

/// A POST request of this length, and what follows its head.
fn post(length: &str, rest: Rest<'_>) -> Vec<u8> {
    sized("POST", length, rest)
}

fn sized(method: &str, length: &str, rest: Rest<'_>) -> Vec<u8> {
    [&headers(&request(method, "/echo", &[("content-length", length)])), rest].concat()
}

/// Their heads are well-formed, so they reach the application, which must not take the body for a whole one.
#[test]
fn bodies_longer_or_shorter_than_their_length_are_malformed() {
    let trailers = headers(&[("etag", "\"seven\"")]);
    let cases = [
        ("no body", post("3", &[])),
        ("too short", post("3", &frame(DATA, b"ab"))),
        ("too short before trailers", post("3", &[frame(DATA, b"ab"), trailers.clone()].concat())),
        ("too long", post("3", &frame(DATA, b"abcd"))),
        ("too long in two frames", post("3", &[frame(DATA, b"ab"), frame(DATA, b"cd")].concat())),
        ("a body where none is", post("0", &frame(DATA, b"a"))),
        ("endless", post("3", &frame_header(DATA, 1 << 40))),
        ("HEAD without body", sized("HEAD", "3", &[])),
        ("HEAD too long", sized("HEAD", "3", &frame(DATA, &[b'a'; 50]))),
        (
            "trailers with a connection",
            [post("3", &frame(DATA, b"abc")), headers(&[("connection", "close")])].concat(),
        ),
        (
            "trailers with a method",
            [post("3", &frame(DATA, b"abc")), headers(&[(":method", "GET")])].concat(),
        ),
        ("trailers with te", [post("3", &frame(DATA, b"abc")), headers(&[("te", "trailers")])].concat()),
    ];
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let _control = raw::control(client).await;
        for (case, bytes) in &cases {
            let answer = raw::ask(client, bytes).await;
            assert_eq!(answer, Err(Code::H3_MESSAGE_ERROR.value()), "{case}");
        }
        assert_eq!(seen.whole.load(Ordering::Relaxed), 0, "no body was taken for a whole one");
        let fine =
            post("3", &[frame(DATA, b"ab"), frame(UNKNOWN, b"?"), frame(DATA, b"c"), trailers].concat());
        assert!(raw::ask(client, &fine).await.is_ok());
        assert_eq!(seen.whole.load(Ordering::Relaxed), 1);
    });
}

/// For h3 a DATA frame without data is the end of the body.
#[test]
fn an_empty_data_frame_ends_no_body() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let _control = raw::control(client).await;
        let body = [frame(DATA, b"ab"), frame(DATA, b""), frame(DATA, b"cd")].concat();
        let answer = raw::ask(client, &[headers(&request("POST", "/echo", &[])), body].concat()).await;
        let answer = answer.expect("the request is well-formed");
        let has = |part: &[u8]| answer.windows(part.len()).any(|window| window == part);
        assert!(has(b"ab") && has(b"cd"), "{answer:?}");
    });
}

#[test]
fn what_is_well_formed_reaches_the_application() {
    let fine: [Fields<'_>; 7] = [
        &[("te", "trailers")],
        &[("content-length", "0")],
        &[("cookie", "a=1"), ("cookie", "b=2")],
        &[("host", "rc3.test")],
        &[("x-empty", "")],
        &[("x-obs", "caf\u{e9}\tau lait")],
        &[("accept", "*/*"), ("accept", "text/html")],
    ];
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let _control = raw::control(client).await;
        for fields in fine {
            let answer = raw::ask(client, &headers(&request("GET", "/bytes/1", fields))).await;
            assert!(answer.is_ok(), "{fields:?}");
        }
        assert_eq!(seen.requests.load(Ordering::Relaxed), fine.len() as u64);
    });
}

/// What a server of quinn answers to a request of this method, as the application of the client sees it.
async fn answered(method: &str, bytes: Vec<u8>) -> Result<usize, h3::error::StreamError> {
    let Ends { client: connection, server, .. } = &ends::quinn_server().await;
    let server = server.clone();
    let serving = tokio::spawn(async move {
        let _control = raw::control(&server).await;
        let (mut send, _recv) = server.accept_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        let _ = send.finish();
        server.closed().await;
    });
    let mut sender = client(Connection::new(connection.clone())).await;
    let asked = crate::common::request(method, "/");
    let answer = crate::common::ask::<Connection>(&mut sender, asked, bytes::Bytes::new(), None).await;
    drop(sender);
    serving.await.unwrap();
    answer.map(|answer| answer.body.len())
}

/// A server that has not sent all of it learns why the client wants no more.
#[test]
fn a_malformed_response_is_stopped() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::quinn_server().await;
        let sender = client(Connection::new(connection.clone())).await;
        // Without a sender, the client would close the connection.
        let mut asker = sender.clone();
        let asking = tokio::spawn(async move { get::<Connection>(&mut asker, "/").await });
        let _control = raw::control(server).await;
        let (mut send, _recv) = server.accept_bi().await.unwrap();
        send.write_all(&headers(&[(":status", "200"), ("connection", "close")])).await.unwrap();
        let stopped = send.stopped().await.unwrap().map(quinn::VarInt::into_inner);
        assert_eq!(stopped, Some(Code::H3_MESSAGE_ERROR.value()));
        asking.await.unwrap().expect_err("the response is malformed");
        drop(sender);
    });
}

#[test]
fn malformed_responses_are_errors_of_their_requests() {
    let head = |fields: Fields<'_>| headers(&[&[(":status", "200")], fields].concat());
    let cases = [
        ("connection", head(&[("connection", "close")])),
        ("transfer-encoding", head(&[("transfer-encoding", "chunked")])),
        ("te", head(&[("te", "trailers")])),
        ("upper case", head(&[("Server", "x")])),
        ("a method", head(&[(":method", "GET")])),
        ("two statuses", head(&[(":status", "204")])),
        ("no status", headers(&[("server", "x")])),
        ("a late status", headers(&[("server", "x"), (":status", "200")])),
        ("two lengths", head(&[("content-length", "1"), ("content-length", "2")])),
        ("too short", [head(&[("content-length", "3")]), frame(DATA, b"ab")].concat()),
        ("nothing", head(&[("content-length", "3")])),
        ("too long", [head(&[("content-length", "3")]), frame(DATA, b"abcd")].concat()),
        ("trailers", [head(&[]), headers(&[("connection", "close")])].concat()),
    ];
    run(async {
        for (case, bytes) in cases {
            let error = answered("GET", bytes).await.expect_err(case);
            assert!(error.to_string().contains("refused what the peer sent"), "{case}: {error}");
        }
    });
}

/// Responses to HEAD, and those without content, name the length of what they would have (RFC 9110 §8.6).
#[test]
fn responses_without_content_may_have_a_length() {
    let head = |status| headers(&[(":status", status), ("content-length", "3")]);
    run(async {
        assert_eq!(answered("HEAD", head("200")).await.unwrap(), 0);
        assert_eq!(answered("GET", head("304")).await.unwrap(), 0);
        let whole = [head("200"), frame(DATA, b"abc")].concat();
        assert_eq!(answered("GET", whole).await.unwrap(), 3);
    });
}
