//! Codes: the number of a room at a rendezvous, and three words that only the two ends know, such as `7-able-raven-onion`.
//! After an `@` may follow where the rendezvous is.

use std::{fmt, str::FromStr};

use super::{PORT, words::WORDS};
use crate::{
    error::{Error, Result},
    transfer::{
        random::random,
        ticket::{authority, is_host},
    },
};

/// Words of a code. One guess is right with a probability of 2^-24.
const CODE_WORDS: usize = 3;

/// Where a rendezvous is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A name or an address, without brackets.
    pub host: String,
    /// The UDP port.
    pub port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

/// As on the command line.
impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = crate::cli::low::parse_advertise(text)?;
        if is_host(&host) { Ok(Self { host, port: port.unwrap_or(PORT) }) } else { Err("not a host".into()) }
    }
}

/// The words. Debug output hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Words([u8; CODE_WORDS]);

impl Words {
    /// Unpredictable ones.
    ///
    /// # Errors
    /// When the system provides no random numbers.
    pub(super) fn random() -> Result<Self> {
        random().map(Self)
    }

    /// What both ends prove to know.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Words")
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.map(|nth| WORDS[usize::from(nth)]).join("-"))
    }
}

/// A code as a user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub(super) number: u32,
    pub(super) words: Words,
    /// The rendezvous, if the code names it.
    pub(crate) place: Option<Place>,
}

impl Code {
    /// Whether a text is meant as a code, rather than a path: a number and three words.
    pub(crate) fn is_meant(text: &str) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let words = |rest: &str| rest.split('@').next().is_some_and(|it| it.split('-').count() == CODE_WORDS);
        text.trim().split_once('-').is_some_and(|(number, rest)| is_number(number) && words(rest))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.words)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(f, "@{place}"))
    }
}

impl FromStr for Code {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            |what: String| Error::usage(what, "write the code as it was said, such as 7-able-raven-onion");
        let (code, place) = match text.trim().split_once('@') {
            Some((code, place)) => (code, Some(place.parse().map_err(wrong)?)),
            None => (text.trim(), None),
        };
        let mut parts = code.split('-');
        let number = parts.next().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| wrong("the code has no number".to_owned()))?;
        let mut words = Words([0; CODE_WORDS]);
        for nth in &mut words.0 {
            let word = parts.next().unwrap_or_default().to_ascii_lowercase();
            let found = WORDS.binary_search(&word.as_str()).ok().and_then(|nth| u8::try_from(nth).ok());
            *nth = found.ok_or_else(|| wrong("a word of the code is mistyped or missing".to_owned()))?;
        }
        match parts.next() {
            None => Ok(Self { number, words, place }),
            Some(_) => Err(wrong("the code has too many words".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_and_hard_to_confuse() {
        assert!(WORDS.is_sorted() && WORDS.iter().all(|word| (4..=7).contains(&word.len())));
        assert!(WORDS.windows(2).all(|two| two[0][..4] != two[1][..4]));
        assert!(WORDS.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }

    #[test]
    fn codes_are_read_back_and_typing_errors_named() {
        let place = Some("[::1]:7".parse().unwrap());
        for place in [None, place] {
            let code = Code { number: 7, words: Words([0, 255, 128]), place };
            assert!(Code::is_meant(&code.to_string()), "{code}");
            assert_eq!(code.to_string().parse::<Code>().unwrap(), code);
            assert_eq!(format!(" {} ", code.to_string().to_uppercase()).parse::<Code>().unwrap(), code);
        }
        let wrong = |text: &str| text.parse::<Code>().unwrap_err().to_string();
        assert!(wrong("x-able-acid-zinc").contains("no number"));
        assert!(wrong("7-able-acid-zink").contains("mistyped"));
        assert!(wrong("7-able-acid").contains("missing"));
        assert!(wrong("7-able-acid-zinc-zinc").contains("too many"));
        assert!(wrong("7-able-acid-zinc@h:0").contains("PORT"));
        let default: Place = "meet.example".parse().unwrap();
        assert_eq!(default.to_string(), format!("meet.example:{PORT}"));
        for path in ["a", "2024-report", "./7-a-b-c", "-able-acid-zinc", "7"] {
            assert!(!Code::is_meant(path), "{path}");
        }
        assert!(!format!("{:?}", "7-able-acid-zinc".parse::<Code>().unwrap()).contains("able"));
    }
}
