//! The code that connects lock and wakers, in orders of events that a machine hardly ever shows: `src/wake.rs` itself,
//! with a lock under which shuttle schedules the tasks. A lost wake-up is a deadlock, which shuttle reports.

#[path = "../src/wake.rs"]
mod wake;

/// Replaces what `wake.rs` imports from its crate.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use shuttle::sync::Mutex;
}

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use rustc_hash::FxBuildHasher;
use shuttle::future::{block_on, spawn};
use tokio::sync::Notify;
use wake::{Monitor, Requests, remember, until};

const STREAMS: usize = 2;
const BYTES: u32 = 3;
const ORDERS: usize = 3000;

/// The smallest endpoint with all three kinds of waiting: a driver carries bytes from writers to readers, and reports
/// the last one.
struct Endpoint {
    monitor: Monitor<State>,
    idle: Notify,
}

struct State {
    requests: Requests,
    written: VecDeque<usize>,
    arrived: [u32; STREAMS],
    readers: HashMap<usize, Waker, FxBuildHasher>,
    unread: u32,
    wakers: Vec<Waker>,
}

impl Endpoint {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.monitor.with(|state| {
            let result = change(state);
            (result, mem::take(&mut state.wakers))
        })
    }
}

/// Carries one byte at a time, and sleeps when there is none, as the real driver does.
async fn drive(endpoint: Arc<Endpoint>) {
    poll_fn(|cx| {
        loop {
            endpoint.with(|state| state.requests.take_all());
            loop {
                let carried = endpoint.with(|state| {
                    let Some(stream) = state.written.pop_front() else { return false };
                    state.arrived[stream] += 1;
                    let reader = state.readers.remove(&stream);
                    state.wakers.extend(reader);
                    true
                });
                if !carried {
                    break;
                }
            }
            if endpoint.with(|state| state.unread == 0) {
                return Poll::Ready(());
            }
            if endpoint.with(|state| state.requests.sleep(cx.waker())) {
                return Poll::Pending;
            }
        }
    })
    .await;
}

async fn write(endpoint: Arc<Endpoint>, stream: usize) {
    for _ in 0..BYTES {
        endpoint.with(|state| {
            state.written.push_back(stream);
            state.requests.add(&mut state.wakers);
        });
    }
}

async fn read(endpoint: Arc<Endpoint>, stream: usize) {
    for _ in 0..BYTES {
        poll_fn(|cx| {
            endpoint.with(|state| {
                if state.arrived[stream] == 0 {
                    remember(&mut state.readers, stream, cx.waker());
                    return Poll::Pending;
                }
                state.arrived[stream] -= 1;
                state.unread -= 1;
                if state.unread == 0 {
                    endpoint.idle.notify_waiters();
                    state.requests.add(&mut state.wakers);
                }
                Poll::Ready(())
            })
        })
        .await;
    }
}

fn endpoint_in_some_order() {
    let endpoint = Arc::new(Endpoint {
        monitor: Monitor::new(State {
            requests: Requests::new(),
            written: VecDeque::new(),
            arrived: [0; STREAMS],
            readers: HashMap::default(),
            unread: STREAMS as u32 * BYTES,
            wakers: Vec::new(),
        }),
        idle: Notify::new(),
    });
    let mut tasks = vec![spawn(drive(endpoint.clone()))];
    for stream in 0..STREAMS {
        tasks.push(spawn(write(endpoint.clone(), stream)));
        tasks.push(spawn(read(endpoint.clone(), stream)));
    }
    for _ in 0..2 {
        let endpoint = endpoint.clone();
        tasks.push(spawn(async move {
            until(&endpoint.idle, || endpoint.with(|state| (state.unread == 0).then_some(()))).await;
        }));
    }
    block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn no_wake_up_is_lost_in_random_orders() {
    shuttle::check_random(endpoint_in_some_order, ORDERS);
}

#[test]
fn no_wake_up_is_lost_in_orders_that_switch_rarely() {
    shuttle::check_pct(endpoint_in_some_order, ORDERS, 3);
}

/// The model detects the error it is for: a worker that forgets requests made during its check sleeps for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_that_forgets_is_found_out() {
    shuttle::check_random(
        || {
            let monitor = Arc::new(Monitor::new((Requests::new(), 0)));
            let asking = monitor.clone();
            let asked = spawn(async move {
                asking.with(|(requests, asked)| {
                    *asked += 1;
                    let mut wakers = Vec::new();
                    requests.add(&mut wakers);
                    ((), wakers)
                });
            });
            block_on(async {
                let work = poll_fn(|cx| {
                    if monitor.with(|(_, asked)| (*asked > 0, Vec::new())) {
                        return Poll::Ready(());
                    }
                    // Too late: a request may have come between the check and this.
                    monitor.with(|(requests, _)| (requests.take_all(), Vec::new()));
                    monitor.with(|(requests, _)| (requests.sleep(cx.waker()), Vec::new()));
                    Poll::Pending
                });
                work.await;
                asked.await.unwrap();
            });
        },
        ORDERS,
    );
}
