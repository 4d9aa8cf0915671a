//! Futures with names: programs store them in their types.

/// A future of a connection that tries again on every notification of `$notify` until `$attempt` yields its output.
macro_rules! named_future {
    ($(#[$doc:meta])* $name:ident($($field:ident: $type:ty)?) -> $output:ty, |$connection:ident| $notify:expr, $attempt:expr) => {
        pin_project_lite::pin_project! {
            $(#[$doc])*
            #[must_use = "futures do nothing unless polled"]
            #[derive(Debug)]
            pub struct $name<'a> {
                connection: &'a Connection,
                $($field: $type,)?
                #[pin]
                notified: tokio::sync::futures::Notified<'a>,
            }
        }

        impl<'a> $name<'a> {
            pub(crate) fn new($connection: &'a Connection $(, $field: $type)?) -> Self {
                Self { notified: $notify.notified(), connection: $connection $(, $field)? }
            }
        }

        impl Future for $name<'_> {
            type Output = $output;

            fn poll(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Self::Output> {
                let this = self.project();
                let $connection: &Connection = this.connection;
                $(let $field: &$type = this.$field;)?
                crate::wake::poll_until(cx, $notify, this.notified, || $attempt)
            }
        }
    };
}

pub(crate) use named_future;
