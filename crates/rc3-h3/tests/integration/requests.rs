//! Requests and answers, with rc3 at both ends and with plain HTTP/3 of quinn at either end.

use crate::common::{
    Http,
    app::{Seen, serve},
    ask, client,
    ends::{self, Ends},
    get, pattern, request, run,
};
use bytes::Bytes;
use http::HeaderMap;

const SIZES: [usize; 5] = [0, 1, 1000, 100_000, 5_000_000];

/// Everything below, over one connection.
async fn all<C: Http, S: Http>(quic_client: C, quic_server: S) {
    tokio::spawn(serve(quic_server, Seen::default()));
    let mut sender = client(quic_client).await;
    for size in SIZES {
        let answer = get::<C>(&mut sender, &format!("/bytes/{size}")).await.unwrap();
        assert!(answer.head.status().is_success() && answer.trailers.is_none());
        assert!(answer.body == pattern(size), "GET of {size} bytes");

        let answer = ask::<C>(&mut sender, request("POST", "/echo"), pattern(size), None).await.unwrap();
        assert!(answer.body == pattern(size), "POST of {size} bytes");
    }
    with_trailers::<C>(&mut sender).await;
    many_at_once::<C>(&sender).await;
}

async fn with_trailers<C: Http>(sender: &mut crate::common::Sender<C>) {
    let trailers = HeaderMap::from_iter([(http::header::ETAG, "\"seven\"".parse().unwrap())]);
    let answer =
        ask::<C>(sender, request("POST", "/echo"), pattern(3000), Some(trailers.clone())).await.unwrap();
    assert_eq!(answer.trailers, Some(trailers));
    assert_eq!(answer.body, pattern(3000));
}

/// More than a connection may have open at once (100).
async fn many_at_once<C: Http>(sender: &crate::common::Sender<C>) {
    let requests = (0..300).map(|size| {
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let body = pattern(size * 10);
            let answer = ask::<C>(&mut sender, request("POST", "/echo"), body, None).await.unwrap();
            (size, answer.body)
        })
    });
    for answered in requests.collect::<Vec<_>>() {
        let (size, body): (usize, Bytes) = answered.await.unwrap();
        assert_eq!(body, pattern(size * 10));
    }
}

#[test]
fn rc3_at_both_ends_sends_bodies_by_rlp() {
    run(async {
        let Ends { client, server, .. } = &ends::rc3(|_| {}).await;
        all(rc3_h3::Connection::new(client.clone()), rc3_h3::Connection::new(server.clone())).await;
        for connection in [client, server] {
            let stats = connection.stats();
            let by_rlp: u64 = stats.sent.levels.iter().map(|level| level.bytes).sum();
            assert!(stats.rc3 && by_rlp > 0, "{:?}: {stats:?}", connection.side());
        }
    });
}

#[test]
fn a_plain_client_is_served() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        all(h3_quinn::Connection::new(client.clone()), rc3_h3::Connection::new(server.clone())).await;
    });
}

#[test]
fn a_plain_server_answers() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_server().await;
        all(rc3_h3::Connection::new(client.clone()), h3_quinn::Connection::new(server.clone())).await;
    });
}
