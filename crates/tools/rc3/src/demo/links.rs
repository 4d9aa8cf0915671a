//! The links of one demonstration.

use serde::Serialize;

/// One thing for each link: what is to be shown of it, or what was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Links<T> {
    /// The link that was asked for.
    #[serde(flatten)]
    pub link: T,
    /// The same link with a card much faster and a queue that ignores marks, unless card, queue or buffer were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_card: Option<T>,
}

impl<T> Links<T> {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.link).chain(&self.fast_card)
    }
}
