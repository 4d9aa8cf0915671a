//! Protocol names (RFC 7301): `rc3/1` alone, and `rc3/1+NAME` for the application protocol `NAME` over rc3.

use super::ALPN_VERSION;

const PREFIX: &[u8] = ALPN_VERSION.as_bytes();

/// The names to offer: the rc3 variant of each of the application's, then the plain names.
pub(crate) fn offer(application: &[Vec<u8>], rc3: bool) -> Vec<Vec<u8>> {
    if !rc3 {
        return application.to_vec();
    }
    if application.is_empty() {
        return vec![PREFIX.to_vec()];
    }
    let rc3 = application.iter().map(|name| [PREFIX, b"+", name].concat());
    rc3.chain(application.iter().cloned()).collect()
}

/// Splits a negotiated name into whether rc3 is used and the application's own name.
pub(crate) fn parse(negotiated: &[u8]) -> (bool, Option<&[u8]>) {
    match negotiated.strip_prefix(PREFIX) {
        Some([]) => (true, None),
        Some([b'+', name @ ..]) => (true, Some(name)),
        _ => (false, Some(negotiated)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_puts_rc3_first_and_keeps_the_plain_names() {
        let names = offer(&[b"h3".to_vec(), b"hq".to_vec()], true);
        assert_eq!(names, [&b"rc3/1+h3"[..], b"rc3/1+hq", b"h3", b"hq"]);
        assert_eq!(parse(&names[0]), (true, Some(&b"h3"[..])));
        assert_eq!(parse(b"h3"), (false, Some(&b"h3"[..])));
        assert_eq!(parse(b"rc3/1"), (true, None));
        assert_eq!(parse(b"rc3/10"), (false, Some(&b"rc3/10"[..])));
        assert_eq!(offer(&[b"h3".to_vec()], false), [b"h3"]);
    }
}
