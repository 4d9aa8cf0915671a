//! How long a flow took, as a line of JSON between processes on one machine, whose clock they share.

use serde::{Deserialize, Serialize};

/// A flow that has arrived. Seconds; CPU time is user and system time of the process during the flow.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Timed {
    /// Nanoseconds of [`now`](crate::net::clock::now) at the call that connects.
    pub begun: u64,
    /// From that call until the connection was open.
    pub connect: f64,
    /// From the first byte offered on the open connection until the receiver had the last.
    pub flow: f64,
    /// CPU time of the sender, the handshake included.
    pub sender_cpu: f64,
    /// CPU time of the receiver, from the open connection on.
    pub receiver_cpu: f64,
    /// Of Kick-Ass.
    pub modes: Option<Modes>,
}

/// In which mode a flow of Kick-Ass was, from connect until the receiver's answer was there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// All seconds.
    pub seconds: f64,
    /// Of them in Kick-Ass mode.
    pub steered: f64,
    /// Signals received.
    pub signals: u64,
    /// Changes to Kick-Ass mode.
    pub to_kickass: u64,
    /// Changes back for want of signals.
    pub by_silence: u64,
    /// Changes back for a loss or a mark.
    pub by_congestion: u64,
}

/// What the receiver answers at the end of a flow, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Nanoseconds of [`now`](crate::net::clock::now) when the last byte was there.
    pub last: u64,
    /// CPU seconds of the receiver since the connection was open.
    pub cpu: f64,
}

impl ReceiverReport {
    /// The flow it ends, which began to connect at `begun` and was open at `opened`.
    pub(super) fn timed(self, begun: u64, opened: u64, sender_cpu: f64) -> Timed {
        let seconds = |from: u64, until: u64| until.saturating_sub(from) as f64 / 1e9;
        Timed {
            begun,
            connect: seconds(begun, opened),
            flow: seconds(opened, self.last),
            sender_cpu,
            receiver_cpu: self.cpu,
            modes: None,
        }
    }
}

impl Timed {
    /// Seconds from connect to the last byte.
    pub fn total(&self) -> f64 {
        self.connect + self.flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_modes_is_that_of_other_programs() {
        let timed =
            ReceiverReport { last: 3_000_000_000, cpu: 0.5 }.timed(1_000_000_000, 1_500_000_000, 0.25);
        assert_eq!((timed.connect, timed.flow, timed.total()), (0.5, 1.5, 2.0));
        let line = r#"{"begun":1000000000,"connect":0.5,"flow":1.5,"sender_cpu":0.25,"receiver_cpu":0.5}"#;
        assert_eq!(serde_json::from_str::<Timed>(line).unwrap(), timed);
    }
}
