/** The style sheet of the pages of shared links. */
export const style = `
:root{color-scheme:light dark;--back:#f3f4f7;--card:#fff;--text:#1a1d24;--quiet:#5c6370;--line:#d9dce3;--strong:#1f5fd0;--stronger:#174da9;--on-strong:#fff;--bad:#b3261e;--bad-back:#fdecea;--paper:#eef2fb}
@media(prefers-color-scheme:dark){:root{--back:#111318;--card:#1b1e26;--text:#e8eaf0;--quiet:#a0a7b5;--line:#353a47;--strong:#7aa8ff;--stronger:#9dbfff;--on-strong:#0d1830;--bad:#ffb4ab;--bad-back:#3a1d1b;--paper:#252b3a}}
*{box-sizing:border-box}
html{height:100%;-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;min-height:100%;display:flex;align-items:center;justify-content:center;padding:1.25rem;background:var(--back);color:var(--text);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{width:100%;max-width:27rem;background:var(--card);border:1px solid var(--line);border-radius:1rem;padding:2.25rem 2rem 1.75rem;box-shadow:0 1px 2px #0000000d,0 12px 32px #00000014;text-align:center}
svg{display:block;width:4rem;height:4.75rem;margin:0 auto 1.1rem;color:var(--strong)}
svg.no{width:3.5rem;height:3.5rem;color:var(--quiet)}
svg .paper{fill:var(--paper)}svg text{font:700 9px system-ui,sans-serif;letter-spacing:.3px}
h1{margin:0;font-size:1.2rem;line-height:1.35;font-weight:650;overflow-wrap:anywhere;text-wrap:balance}
.facts{margin:.35rem 0 0;color:var(--quiet);font-size:.94rem}
.say{margin:.6rem 0 0;color:var(--quiet)}
form{margin:1.6rem 0 0;text-align:left}
label{display:block;margin:0 0 .35rem;font-weight:600;font-size:.94rem}
input{width:100%;min-height:2.9rem;margin:0 0 1rem;padding:.5rem .8rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--line);border-radius:.6rem}
input[aria-invalid]{border-color:var(--bad)}
.bad{margin:1.4rem 0 0;padding:.65rem .85rem;border-radius:.6rem;background:var(--bad-back);color:var(--bad);font-size:.94rem;text-align:left}
.ways{display:flex;flex-wrap:wrap;gap:.65rem}
button{flex:1 1 9rem;min-height:2.9rem;padding:.5rem 1rem;font:inherit;font-weight:600;border-radius:.6rem;border:1px solid var(--strong);background:transparent;color:var(--strong);cursor:pointer}
button.first{background:var(--strong);color:var(--on-strong)}
button.first:hover{background:var(--stronger);border-color:var(--stronger)}
button:not(.first):hover{background:var(--paper)}
:focus-visible{outline:3px solid var(--strong);outline-offset:2px}
footer{text-wrap:balance;margin:1.6rem 0 0;padding:1.1rem 0 0;border-top:1px solid var(--line);color:var(--quiet);font-size:.85rem}
@media(max-width:26rem){body{padding:.75rem}main{padding:1.75rem 1.25rem 1.25rem}}
`
