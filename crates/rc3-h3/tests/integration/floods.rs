//! Frames that are too long, or that end early, and fields that are too many.

use std::sync::atomic::Ordering;

use crate::common::{
    app::{Seen, serve},
    ends::{self, Ends},
    raw::{self, HEADERS, SETTINGS, UNKNOWN, frame, frame_header, headers, request, varint},
    run,
};
use h3::error::Code;
use quinn::{SendStream, WriteError};
use rc3_h3::Connection;

/// The length of the frames below.
const ENDLESS: u64 = 1 << 40;

/// What would be sent of it.
const FLOOD: usize = 64 << 20;

/// Sends the payload of an endless frame; how many bytes the transport took before the stream was stopped or the
/// connection closed.
async fn flood(send: &mut SendStream) -> (usize, WriteError) {
    let piece = vec![7; 64 << 10];
    for sent in (0..FLOOD).step_by(piece.len()) {
        if let Err(error) = send.write_all(&piece).await {
            return (sent, error);
        }
    }
    panic!("the frame is not refused");
}

#[test]
fn a_header_without_end_is_refused_before_it_arrives() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let _control = raw::control(client).await;
        for prefix in [vec![], headers(&request("POST", "/echo", &[]))] {
            let (mut send, recv) = client.open_bi().await.unwrap();
            send.write_all(&[prefix, frame_header(HEADERS, ENDLESS)].concat()).await.unwrap();
            let (sent, error) = flood(&mut send).await;
            assert!(sent < FLOOD / 4, "{sent} bytes were taken");
            let code = quinn::VarInt::from_u64(Code::H3_EXCESSIVE_LOAD.value()).unwrap();
            assert_eq!(error, WriteError::Stopped(code));
            assert_eq!(raw::answer(recv).await, Err(code.into_inner()));
        }
        let fine = raw::ask(client, &headers(&request("GET", "/bytes/10", &[]))).await;
        assert!(fine.is_ok(), "the connection serves other requests");
    });
}

#[test]
fn a_frame_without_end_on_the_control_stream_closes_the_connection() {
    run(async {
        // SETTINGS, GOAWAY, MAX_PUSH_ID, and one that only HTTP/2 has.
        for kind in [SETTINGS, 7, 0xd, 6] {
            let Ends { client, server, .. } = &ends::quinn_client().await;
            tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
            let mut control = client.open_uni().await.unwrap();
            let settings = if kind == SETTINGS { vec![] } else { frame(SETTINGS, &[]) };
            let start = [varint(0), settings, frame_header(kind, ENDLESS)].concat();
            control.write_all(&start).await.unwrap();
            let (sent, _) = flood(&mut control).await;
            assert!(sent < FLOOD / 4, "{sent} bytes were taken");
            assert_eq!(raw::closed(client).await, Code::H3_EXCESSIVE_LOAD.value());
        }
    });
}

#[test]
fn unknown_frames_change_nothing() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let _control = raw::control(client).await;
        let many = [frame(UNKNOWN, &[7; 100_000]), frame(UNKNOWN, &[])].concat().repeat(5);
        let asked = [many.clone(), headers(&request("GET", "/bytes/10", &[])), many].concat();
        assert!(raw::ask(client, &asked).await.is_ok());
        assert_eq!(seen.requests.load(Ordering::Relaxed), 1);
    });
}

/// h3 panics when a header has more fields than its map may hold.
#[test]
fn a_header_of_very_many_fields_is_refused() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        let seen = Seen::default();
        tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
        let _control = raw::control(client).await;
        // An entry of the static table (RFC 9204 appendix A) in a byte each.
        let section = [vec![0, 0], vec![0xc0 | 29; 40_000]].concat();
        let answer = raw::ask(client, &frame(HEADERS, &section)).await;
        assert_eq!(answer, Err(Code::H3_EXCESSIVE_LOAD.value()));
        assert_eq!(seen.requests.load(Ordering::Relaxed), 0);
    });
}

/// h3 takes a body that ends inside of a frame for a whole one.
#[test]
fn a_stream_that_ends_inside_of_a_frame_closes_the_connection() {
    run(async {
        let head = headers(&request("POST", "/echo", &[]));
        let cut = [
            [head.clone(), frame_header(0, 100), vec![7; 10]].concat(),
            [head.clone(), frame_header(UNKNOWN, 100), vec![7; 10]].concat(),
            [head.clone(), vec![0x21]].concat(),
            head[..head.len() - 1].to_vec(),
        ];
        for bytes in cut {
            let Ends { client, server, .. } = &ends::quinn_client().await;
            let seen = Seen::default();
            tokio::spawn(serve(Connection::new(server.clone()), seen.clone()));
            let _control = raw::control(client).await;
            let (mut send, _recv) = client.open_bi().await.unwrap();
            send.write_all(&bytes).await.unwrap();
            // The end must not arrive with the last bytes.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            send.finish().unwrap();
            assert_eq!(raw::closed(client).await, Code::H3_FRAME_ERROR.value());
            assert_eq!(seen.whole.load(Ordering::Relaxed), 0);
        }
    });
}
