//! Peers that do not read: the adapter stores no more than the transport's windows and one piece.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::common::{
    app::{FRAME, Seen, serve},
    client,
    ends::{self, Ends},
    get, pattern, request, run,
};
use bytes::{Buf, Bytes};
use rc3_h3::Connection;

/// Of each window of the transport.
const WINDOW: u64 = 1024 * 1024;

/// What the sender may have had accepted while nobody reads: the receiver's window, which both loops share, the sender's
/// window, the primary's unacknowledged bytes (`TransportConfig::send_window`), and the frame that completes last.
const ACCEPTED_MAX: u64 = 3 * WINDOW + FRAME as u64;

fn windows(transport: &mut rc3_net::TransportConfig) {
    transport.receive_window(u32::try_from(WINDOW).expect("small").into()).send_window(WINDOW);
}

/// The counter's value once it has not moved for a while.
async fn settled(counter: &AtomicU64) -> u64 {
    let mut last = u64::MAX;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = counter.load(Ordering::Relaxed);
        if now > 0 && now == last {
            return now;
        }
        last = now;
    }
}

#[test]
fn a_client_that_stops_reading_stops_the_server() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::rc3(windows).await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let mut sender = client(Connection::new(connection.clone())).await;
        let mut stream = sender.send_request(request("GET", "/endless")).await.unwrap();
        stream.recv_response().await.unwrap();

        let accepted = settled(&seen.accepted).await;
        assert!(accepted <= ACCEPTED_MAX, "{accepted} bytes accepted, nobody reads");
        // Reading gives new credit.
        let mut read = 0;
        while read < 4 * ACCEPTED_MAX {
            read += stream.recv_data().await.unwrap().expect("an endless body").remaining() as u64;
        }
        assert!(seen.accepted.load(Ordering::Relaxed) >= read - FRAME as u64);
    });
}

#[test]
fn a_request_body_nobody_reads_stops_the_client() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::rc3(windows).await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let mut sender = client(Connection::new(connection.clone())).await;
        let (mut send, mut recv) = sender.send_request(request("POST", "/ignore")).await.unwrap().split();
        recv.recv_response().await.unwrap();

        let accepted = crate::common::Counter::default();
        let counting = accepted.clone();
        tokio::spawn(async move {
            while send.send_data(Bytes::from(vec![1; FRAME])).await.is_ok() {
                counting.fetch_add(FRAME as u64, Ordering::Relaxed);
            }
        });
        let accepted = settled(&accepted).await;
        assert!(accepted <= ACCEPTED_MAX, "{accepted} bytes accepted, nobody reads");
        let stored = server.stats().received;
        assert!(stored.held_bytes <= 2 * ACCEPTED_MAX, "{stored:?}");
        drop(recv);
    });
}

/// Of a frame larger than all windows, one piece is copied at a time.
#[test]
fn a_large_frame_is_copied_in_pieces() {
    run(async {
        let Ends { client: connection, server, .. } = &ends::rc3(windows).await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let mut sender = client(Connection::new(connection.clone())).await;
        let answer = get::<Connection>(&mut sender, "/bytes/9000000").await.unwrap();
        assert_eq!(answer.body, pattern(9_000_000));
    });
}
