//! Finds what can be changed in a file: bodies of functions and operators.

use std::collections::HashSet;
use std::ops::Range;

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ExprBinary, ExprUnary, Signature, UnOp};

use crate::function_values;

pub struct Mutant {
    pub number: u32,
    pub function: String,
    pub change: String,
}

pub struct Insertion {
    pub at: usize,
    pub text: String,
    pub mutant: Option<Mutant>,
    /// Orders insertions at one place: ends first, and of these the innermost.
    rank: isize,
}

impl Insertion {
    pub fn order(&self) -> (usize, isize) {
        (self.at, self.rank)
    }
}

pub struct Sites<'a> {
    pub insertions: Vec<Insertion>,
    /// The number of the next mutant. Those excluded keep theirs.
    pub next: u32,
    excluded: &'a HashSet<u32>,
    function: String,
    /// How many expressions and functions are around the current place.
    depth: isize,
}

pub fn find<'a>(text: &str, next: u32, excluded: &'a HashSet<u32>) -> syn::Result<Sites<'a>> {
    let mut sites = Sites {
        insertions: Vec::new(),
        next,
        excluded,
        function: String::new(),
        depth: 0,
    };
    sites.visit_file(&syn::parse_file(text)?);
    Ok(sites)
}

impl Sites<'_> {
    fn add_mutant(&mut self, at: usize, change: String, text: impl FnOnce(u32) -> String) -> bool {
        let number = self.next;
        self.next += 1;
        if self.excluded.contains(&number) {
            return false;
        }
        let function = self.function.clone();
        self.insertions.push(Insertion {
            at,
            text: text(number),
            mutant: Some(Mutant {
                number,
                function,
                change,
            }),
            rank: self.depth,
        });
        true
    }

    fn replace_expression(&mut self, range: Range<usize>, change: String, mutated: &str) {
        let is_added = self.add_mutant(range.start, change, |number| {
            format!("(if crate::mutation::is_active({number}) {{ {mutated} }} else {{ ")
        });
        if is_added {
            self.insertions.push(Insertion {
                at: range.end,
                text: " })".to_owned(),
                mutant: None,
                rank: -self.depth,
            });
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block, attributes: &[Attribute]) {
        if signature.constness.is_some() || is_test(attributes) {
            return;
        }
        let outer = std::mem::replace(&mut self.function, signature.ident.to_string());
        self.depth += 1;
        let body = block
            .stmts
            .iter()
            .map(|statement| statement.to_token_stream().to_string());
        let body = body.collect::<String>().replace(' ', "");
        for value in function_values::of(&signature.output) {
            if body != value {
                let at = block.brace_token.span.open().byte_range().end;
                self.add_mutant(at, format!("body -> {{ {value} }}"), |number| {
                    format!(" if crate::mutation::is_active({number}) {{ return {value}; }}")
                });
            }
        }
        visit::visit_block(self, block);
        self.depth -= 1;
        self.function = outer;
    }
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, &item.attrs);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, &item.attrs);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        self.depth += 1;
        let operator = binary.op.to_token_stream().to_string();
        if let Some(other) = other_operator(&binary.op).filter(|_| !contains_let(binary)) {
            let (left, right) = (&binary.left, &binary.right);
            let mutated = format!(
                "({}) {other} ({})",
                left.to_token_stream(),
                right.to_token_stream()
            );
            let change = format!("{operator} -> {other}");
            let range = binary.span().byte_range();
            self.replace_expression(range, change, &mutated);
        }
        visit::visit_expr_binary(self, binary);
        self.depth -= 1;
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        self.depth += 1;
        if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) {
            let mutated = unary.expr.to_token_stream().to_string();
            let change = format!("remove {}", unary.op.to_token_stream());
            self.replace_expression(unary.span().byte_range(), change, &mutated);
        }
        visit::visit_expr_unary(self, unary);
        self.depth -= 1;
    }

    // Constant expressions and patterns cannot have conditions.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        text.contains("test") && !text.contains("not (test)") && !text.contains("doc")
    })
}

/// Whether `&&` combines conditions of which one binds variables.
fn contains_let(binary: &ExprBinary) -> bool {
    fn binds(expression: &Expr) -> bool {
        match expression {
            Expr::Let(_) => true,
            Expr::Binary(binary) => contains_let(binary),
            _ => false,
        }
    }
    matches!(binary.op, BinOp::And(_)) && (binds(&binary.left) || binds(&binary.right))
}

fn other_operator(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) | BinOp::Mul(_) => "+",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        _ => return None,
    })
}
