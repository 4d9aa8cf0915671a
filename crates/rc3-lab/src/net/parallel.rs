//! Several measurements at once, of those that mostly wait.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::{error::NetError, interrupt};

/// Runs all jobs, so many at once; the results are in the order of the jobs. After an error or a signal no more begin.
///
/// # Errors
/// That of a job, of several the first.
pub fn in_parallel<J: Copy + Sync, T: Send>(
    threads: usize,
    jobs: &[J],
    run: impl Fn(J) -> Result<T, NetError> + Sync,
) -> Result<Vec<T>, NetError> {
    let (begun, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let failed = AtomicBool::new(false);
    let work = || {
        let next = || Some(begun.fetch_add(1, Relaxed)).and_then(|nth| Some((nth, *jobs.get(nth)?)));
        while !failed.load(Relaxed) {
            let Some((nth, job)) = next() else { break };
            let result = interrupt::check().and_then(|()| run(job));
            failed.fetch_or(result.is_err(), Relaxed);
            if let Ok(mut done) = done.lock() {
                done.insert(nth, result);
            }
        }
    };
    thread::scope(|scope| (0..threads.min(jobs.len())).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap_or_default().into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_no_more_jobs_begin() {
        let begun = AtomicUsize::new(0);
        let run = |_| {
            begun.fetch_add(1, Relaxed);
            Err::<(), _>(NetError::NoTrace)
        };
        assert!(matches!(in_parallel(1, &[0, 1, 2], run), Err(NetError::NoTrace)));
        assert_eq!(begun.into_inner(), 1);
    }
}
