//! Items as their users see them: no bodies, no values, no private fields.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Fields, ImplItem, Item, TraitItem, Visibility};

/// Attributes, visibility and name of the kinds of items that libraries show.
macro_rules! each_kind {
    ($item:expr, $it:ident => $answer:expr, $other:expr) => {
        match $item {
            Item::Const($it) => $answer,
            Item::Enum($it) => $answer,
            Item::Mod($it) => $answer,
            Item::Static($it) => $answer,
            Item::Struct($it) => $answer,
            Item::Trait($it) => $answer,
            Item::Type($it) => $answer,
            Item::Union($it) => $answer,
            _ => $other,
        }
    };
}

pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        other => each_kind!(other, it => &it.attrs, &[]),
    }
}

pub fn visibility(item: &Item) -> Option<&Visibility> {
    match item {
        Item::Fn(it) => Some(&it.vis),
        Item::Use(it) => Some(&it.vis),
        other => each_kind!(other, it => Some(&it.vis), None),
    }
}

pub fn name_of(item: &Item) -> Option<String> {
    match item {
        Item::Fn(it) => Some(it.sig.ident.to_string()),
        other => each_kind!(other, it => Some(it.ident.to_string()), None),
    }
}

/// The item as its users see it: no bodies, no values, no private fields.
pub fn bare(item: &Item) -> Item {
    let mut item = item.clone();
    match &mut item {
        Item::Fn(it) => {
            it.attrs.retain(is_kept);
            it.block = no_block();
        }
        Item::Const(it) => *it.expr = no_value(),
        Item::Static(it) => *it.expr = no_value(),
        Item::Struct(it) => open_fields(&mut it.fields),
        Item::Enum(it) => {
            for variant in &mut it.variants {
                variant.attrs.retain(is_kept);
                let fields = variant.fields.iter_mut();
                fields.for_each(|field| field.attrs.retain(is_kept));
            }
        }
        Item::Trait(it) => {
            it.items.retain(|item| !is_hidden(trait_attributes(item)));
            for item in &mut it.items {
                match item {
                    TraitItem::Fn(it) => {
                        it.attrs.retain(is_kept);
                        it.default = it.default.as_ref().map(|_| *no_block());
                    }
                    TraitItem::Const(it) => it.attrs.retain(is_kept),
                    TraitItem::Type(it) => it.attrs.retain(is_kept),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    each_kind!(&mut item, it => it.attrs.retain(is_kept), ());
    item
}

fn trait_attributes(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Fn(it) => &it.attrs,
        TraitItem::Const(it) => &it.attrs,
        TraitItem::Type(it) => &it.attrs,
        _ => &[],
    }
}

/// Of a type's own functions the public ones; of a trait's implementation its types.
pub fn bare_impl(it: &syn::ItemImpl) -> Item {
    let mut it = it.clone();
    it.attrs.retain(is_kept);
    let of_trait = it.trait_.is_some();
    it.items.retain_mut(|item| match item {
        ImplItem::Fn(it) => {
            let shown = is_public(Some(&it.vis)) && !is_hidden(&it.attrs);
            let shown = shown && !is_for_tests(&it.attrs);
            it.attrs.retain(is_kept);
            it.block = *no_block();
            shown && !of_trait
        }
        ImplItem::Const(it) => {
            it.attrs.retain(is_kept);
            it.expr = no_value();
            is_public(Some(&it.vis))
        }
        ImplItem::Type(it) => {
            it.attrs.retain(is_kept);
            of_trait
        }
        _ => false,
    });
    it.items.sort_by_cached_key(|item| match item {
        ImplItem::Fn(it) => it.sig.ident.to_string(),
        ImplItem::Const(it) => it.ident.to_string(),
        _ => String::new(),
    });
    Item::Impl(it)
}

/// Private fields become one that says so: a program can't write the struct down.
fn open_fields(fields: &mut Fields) {
    let nothing: syn::Type = syn::parse_quote!(_);
    let all = match fields {
        Fields::Named(named) => &mut named.named,
        Fields::Unnamed(unnamed) => &mut unnamed.unnamed,
        Fields::Unit => return,
    };
    let mut shown: Punctuated<syn::Field, syn::token::Comma> = Punctuated::new();
    let mut hidden = None;
    for mut field in std::mem::take(all) {
        field.attrs.retain(is_kept);
        if is_public(Some(&field.vis)) {
            shown.push(field);
        } else {
            field.attrs.clear();
            field.ident = field.ident.map(|_| syn::parse_quote!(private));
            field.vis = Visibility::Inherited;
            field.ty = nothing.clone();
            hidden = Some(field);
        }
    }
    shown.extend(hidden);
    *all = shown;
}

fn no_block() -> Box<syn::Block> {
    Box::new(syn::parse_quote!({}))
}

fn no_value() -> Expr {
    syn::parse_quote!(_)
}

pub fn is_public(visibility: Option<&Visibility>) -> bool {
    matches!(visibility, Some(Visibility::Public(_)))
}

pub fn is_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "hidden")
}

pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    has(attributes, "cfg", "test")
}

/// Whether an attribute has a list with a word in it: `#[cfg(all(test, ...))]`.
fn has(attributes: &[Attribute], name: &str, word: &str) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident(name) => {
            let text = list.tokens.to_string();
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.any(|found| found == word) && !text.starts_with("not")
        }
        _ => false,
    })
}

/// Attributes that a user of the item can tell.
pub fn is_kept(attribute: &Attribute) -> bool {
    let kept = [
        "derive",
        "must_use",
        "non_exhaustive",
        "repr",
        "deprecated",
        "cfg",
    ];
    kept.iter().any(|name| attribute.path().is_ident(name))
}
