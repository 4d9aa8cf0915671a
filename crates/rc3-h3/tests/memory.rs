//! Memory that frames without a meaning cost. Alone in its process, whose memory it measures.
#![cfg(target_os = "linux")]

#[path = "integration/common/mod.rs"]
mod common;

use std::fs;

use common::{
    app::{Seen, serve},
    ends::{self, Ends},
    raw::{self, UNKNOWN, frame_header},
    run,
};
use rc3_h3::Connection;

/// What is sent of a frame.
const FLOOD: usize = 64 << 20;

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// On a request's stream and on the control stream.
#[test]
fn unknown_frames_are_skipped_and_not_stored() {
    run(async {
        let Ends { client, server, .. } = &ends::quinn_client().await;
        tokio::spawn(serve(Connection::new(server.clone()), Seen::default()));
        let mut control = raw::control(client).await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        let before = resident();
        let piece = vec![7; 64 << 10];
        for stream in [&mut control, &mut send] {
            stream.write_all(&frame_header(UNKNOWN, 1 << 40)).await.unwrap();
            for _ in 0..FLOOD / piece.len() {
                stream.write_all(&piece).await.unwrap();
            }
        }
        let stored = resident().saturating_sub(before);
        assert!(stored < FLOOD, "{stored} bytes for {} that were sent", 2 * FLOOD);
    });
}
