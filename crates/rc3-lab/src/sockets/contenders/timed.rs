//! How long a flow took, as a line of JSON between processes on one machine, whose clock they share.

use serde::{Deserialize, Serialize};

use crate::sockets::clock;

/// A flow that has arrived. Seconds; CPU time is user and system time of the process during the flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Nanoseconds of [`clock::now`] at the call that connects.
    pub begun: u64,
    /// From that call until the connection was open.
    pub connect: f64,
    /// From the first byte offered on the open connection until the receiver had the last.
    pub flow: f64,
    /// CPU time of the sender, the handshake included.
    pub sender_cpu: f64,
    /// CPU time of the receiver, from the open connection on.
    pub receiver_cpu: f64,
}

/// What the receiver answers at the end of a flow: two numbers in a line of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Nanoseconds of [`clock::now`] when the last byte was there.
    pub last: u64,
    /// CPU seconds of the receiver since the connection was open.
    pub cpu: f64,
}

impl Answer {
    /// As text.
    pub fn text(self) -> String {
        format!("{} {}", self.last, self.cpu)
    }

    /// From the text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mut next = || words.next().ok_or_else(|| format!("`{text}` is no answer of a receiver"));
        let wrong = |what: &dyn std::fmt::Display| format!("`{text}` is no answer of a receiver: {what}");
        let last = next()?.parse().map_err(|error| wrong(&error))?;
        let cpu = next()?.parse().map_err(|error| wrong(&error))?;
        Ok(Self { last, cpu })
    }

    /// The flow it ends, which began to connect at `begun` and was open at `opened`.
    pub(super) fn timed(self, begun: u64, opened: u64, sender_cpu: f64) -> Timed {
        let seconds = |from: u64, until: u64| until.saturating_sub(from) as f64 / 1e9;
        Timed {
            begun,
            connect: seconds(begun, opened),
            flow: seconds(opened, self.last),
            sender_cpu,
            receiver_cpu: self.cpu,
        }
    }
}

impl Timed {
    /// Prints it as a line of JSON.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub(super) fn print(&self) -> super::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// When a stream ended that is read block by block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last(u64);

impl Last {
    pub(super) fn now() -> Self {
        Self(clock::now())
    }

    pub(super) fn answer(self, cpu: f64) -> Answer {
        Answer { last: self.0, cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_back() {
        let answer = Answer { last: 17_000_000_123, cpu: 0.25 };
        assert_eq!(Answer::parse(&answer.text()), Ok(answer));
        assert!(Answer::parse("12").unwrap_err().contains("no answer"));
        assert!(Answer::parse("12 x").is_err());
    }
}
