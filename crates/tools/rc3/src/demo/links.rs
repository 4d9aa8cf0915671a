//! The links of one demonstration.

use serde::Serialize;

/// A value for each link: its scenario or its results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Links<T> {
    /// The link that the user chose.
    #[serde(flatten)]
    pub link: T,
    /// The same link with a much faster card and a queue that ignores marks, unless the user chose card, queue or
    /// buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_card: Option<T>,
}

impl<T> Links<T> {
    /// Both in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.link).chain(&self.fast_card)
    }
}
