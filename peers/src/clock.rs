//! Clocks of this machine, and the line that reports a flow.

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Nanoseconds of the monotonic clock, the same in all processes.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU seconds of this process so far.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Prints a flow that began to connect at `begun`, was open at `opened`, and ended with this answer of the receiver.
pub(crate) fn report(begun: u64, opened: u64, sender_cpu: f64, answer: &str) -> Result<()> {
    let (last, receiver_cpu) = answer.split_once(' ').ok_or("the receiver's answer is too short")?;
    let (last, receiver_cpu): (u64, f64) = (last.parse()?, receiver_cpu.parse()?);
    let connect = opened.saturating_sub(begun) as f64 / 1e9;
    let flow = last.saturating_sub(opened) as f64 / 1e9;
    println!(
        "{{\"begun\":{begun},\"connect\":{connect},\"flow\":{flow},\"sender_cpu\":{sender_cpu},\"receiver_cpu\":{receiver_cpu}}}"
    );
    Ok(())
}
