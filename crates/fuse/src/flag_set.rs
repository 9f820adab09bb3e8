//! A macro for newtypes that hold a set of kernel flags.

/// Defines a newtype over an integer with named flags and the usual set operations.
macro_rules! flag_set {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$flag_meta:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            $($(#[$flag_meta])* pub const $flag: Self = Self($value);)*

            /// The empty set.
            pub const EMPTY: Self = Self(0);

            /// The set with exactly these bits, known or not.
            #[must_use]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The bits as the kernel writes them.
            #[must_use]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// True if every flag of `other` is in this set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// This set with the flags of `other` added.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set with the flags of `other` removed.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The flags that both sets have.
            #[must_use]
            pub const fn intersection(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl ::std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut rest = *self;
                f.write_str(stringify!($name))?;
                let mut list = f.debug_list();
                $(if Self::$flag.0 != 0 && rest.contains(Self::$flag) {
                    list.entry(&format_args!("{}", stringify!($flag)));
                    rest = rest.without(Self::$flag);
                })*
                if rest.0 != 0 {
                    list.entry(&format_args!("{:#x}", rest.0));
                }
                list.finish()
            }
        }
    };
}

pub(crate) use flag_set;
