//! Messages between the two sides, in UDP payloads.
//!
//! A question is at least as long as its answer, so forged questions cannot amplify traffic to others.

use kickass::code::Code;

/// Magic number of questions.
const QUESTION: [u8; 8] = *b"kickass?";
/// Magic number of answers.
const ANSWER: [u8; 8] = *b"kickass!";

/// How a question was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Whole, with a payload as long as the code.
    Whole,
    /// As long as possible, fragmented at the code.
    Fragmented,
    /// In IPv6: whole, with a Fragment header (RFC 6946).
    Atomic,
}

impl Form {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Whole, Self::Fragmented, Self::Atomic].into_iter().find(|form| *form as u8 == byte)
    }
}

/// A question, or the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Random, one for each sweep.
    pub run: u64,
    /// How the question was sent.
    pub form: Form,
    /// The probed length.
    pub code: Code,
    /// How often it was probed before.
    pub attempt: u8,
}

impl Message {
    /// Length of an answer in bytes, and shortest length of a question.
    pub const LEN: usize = 20;

    /// The question in a UDP payload of this many bytes, at least [`Self::LEN`].
    pub fn question(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.bytes(QUESTION).to_vec();
        bytes.resize(len.max(Self::LEN), 0);
        bytes
    }

    /// The answer to a question; further content of the question is ignored.
    pub fn answer(question: &[u8]) -> Option<[u8; Self::LEN]> {
        Self::parse(question, QUESTION).map(|message| message.bytes(ANSWER))
    }

    /// Parses an answer.
    pub fn parse_answer(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes, ANSWER)
    }

    fn bytes(&self, kind: [u8; 8]) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&kind);
        bytes[8..16].copy_from_slice(&self.run.to_be_bytes());
        // Lengths of codes are below 2^16.
        bytes[16..18].copy_from_slice(&(self.code.payload_len() as u16).to_be_bytes());
        bytes[18] = self.form as u8;
        bytes[19] = self.attempt;
        bytes
    }

    fn parse(bytes: &[u8], kind: [u8; 8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let (begin, rest) = bytes.split_first_chunk::<8>()?;
        let (run, rest) = rest.split_first_chunk::<8>()?;
        let &[high, low, form, attempt] = rest else { return None };
        if *begin != kind {
            return None;
        }
        Some(Self {
            run: u64::from_be_bytes(*run),
            form: Form::from_byte(form)?,
            code: Code::from_len(u16::from_be_bytes([high, low]).into())?,
            attempt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_its_question() {
        for form in [Form::Whole, Form::Fragmented, Form::Atomic] {
            let message = Message { run: 7, form, code: Code::MAX, attempt: 2 };
            let answer = Message::answer(&message.question(1000)).unwrap();
            assert_eq!(Message::parse_answer(&answer), Some(message));
            assert_eq!(message.question(0).len(), answer.len());
        }
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let question = Message { run: 7, form: Form::Whole, code: Code::MIN, attempt: 0 }.question(100);
        let answer = Message::answer(&question).unwrap();
        assert_eq!(Message::answer(&answer), None, "two listeners would answer each other for ever");
        for at in [0, 17, 18] {
            let mut broken = question.clone();
            broken[at] ^= 0x83;
            assert_eq!(Message::answer(&broken), None, "{at}");
        }
        assert_eq!(Message::answer(&question[..Message::LEN - 1]), None);
        assert_eq!(Message::parse_answer(&question), None);
    }
}
