//! Every message in every state, to each end of a transfer: with the values at which fields change their meaning, one at
//! a time and in random order. Only names that were asked for appear, nothing changes elsewhere, every conversation ends,
//! nothing panics, and nobody reports success without the files.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::timeout};

use super::{
    message::{Entry, Kind},
    progress::{Event, Observer, Reporter},
    verdict::Omission,
};

mod to_receiver;
mod to_sender;

/// Conversations at a time.
const AT_ONCE: usize = 12;
/// Beyond any pause that an end may make.
const LONG: Duration = Duration::from_secs(60);

/// Runs all conversations, a few at a time.
fn run<F: Future<Output = ()> + Send + 'static>(all: impl Iterator<Item = F>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        let mut all = all;
        loop {
            while running.len() < AT_ONCE
                && let Some(conversation) = all.next()
            {
                running.spawn(async move { timeout(LONG, conversation).await.expect("it ends") });
            }
            match running.join_next().await {
                Some(done) => done.expect("no panic"),
                None => return,
            }
        }
    });
}

/// One that fails if a background task has panicked, and whether it has reported the end.
fn reporter() -> (Reporter, Arc<AtomicBool>) {
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    let reporter = Reporter::observed(Observer::new(move |event| {
        let text = format!("{event:?}");
        assert!(!text.contains("panicked"), "{text}");
        is_done.fetch_or(matches!(event, Event::Done(_)), Relaxed);
    }));
    (reporter, done)
}

/// Names that were asked for (`asked`), that were not, and that are none.
fn names() -> Vec<Vec<u8>> {
    let names: [&[u8]; 11] = [
        b"asked",
        b"asked/in",
        b"asked/there",
        b".profile",
        b"new",
        b"askedx",
        b"../outside",
        b"asked/../new",
        b"/new",
        b"",
        b"asked/.a.0123abcd.rc3-part",
    ];
    names.map(<[u8]>::to_vec).to_vec()
}

fn kinds() -> Vec<Kind> {
    let file = |bytes, holes: &[(u64, u64)]| Kind::File {
        bytes,
        mode: Some(0o7777),
        modified: Some((i64::MIN, u32::MAX)),
        holes: holes.to_vec(),
    };
    let link = |target: &[u8]| Kind::Link { target: target.to_vec(), modified: None };
    vec![
        Kind::Directory { mode: None, modified: None },
        file(0, &[]),
        file(4, &[]),
        file(u64::MAX, &[]),
        file(1 << 20, &[(0, 1 << 20)]),
        file(4, &[(3, 9)]),
        link(b"new"),
        link(b"../../outside"),
        Kind::Pipe,
        Kind::HardLink { first: 0 },
        Kind::HardLink { first: 1 },
        Kind::HardLink { first: u32::MAX },
    ]
}

fn entries() -> impl Iterator<Item = Entry> {
    names()
        .into_iter()
        .flat_map(|path| kinds().into_iter().map(move |kind| Entry { path: path.clone(), kind }))
}

/// Indices of entries: known ones, and others.
const FILES: [u32; 4] = [0, 1, 2, u32::MAX];

fn omissions() -> [Omission; 2] {
    [Omission::Changed, Omission::Unreadable("\u{1b}[2J".to_owned())]
}
