//! Several measurements at once, of those that mostly wait.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::error::NetError;

/// Runs all jobs, so many at once; the results are in the order of the jobs.
///
/// # Errors
/// That of a job, of several the first.
pub fn in_parallel<J: Copy + Sync, T: Send>(
    threads: usize,
    jobs: &[J],
    run: impl Fn(J) -> Result<T, NetError> + Sync,
) -> Result<Vec<T>, NetError> {
    let (begun, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        let next = || Some(begun.fetch_add(1, Relaxed)).and_then(|nth| Some((nth, *jobs.get(nth)?)));
        while let Some((nth, job)) = next() {
            let result = run(job);
            if let Ok(mut done) = done.lock() {
                done.insert(nth, result);
            }
        }
    };
    thread::scope(|scope| (0..threads.min(jobs.len())).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap_or_default().into_values().collect()
}
