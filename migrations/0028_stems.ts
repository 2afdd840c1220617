import { type Kysely, type RawBuilder, sql } from 'kysely'

type Stemmers = Readonly<Record<string, RawBuilder<unknown>>>

/** The stems of a language by Snowball. `endings` restore accents, which words of the index lack, where Snowball needs them. */
const snowball = (language: string, ...endings: readonly (readonly [pattern: string, replacement: string])[]) => {
  const word = endings.reduce<RawBuilder<unknown>>(
    (word, [pattern, replacement]) => sql`regexp_replace(${word}, ${sql.lit(pattern)}, ${sql.lit(replacement)})`,
    sql`word`,
  )
  return sql`ts_lexize(${sql.lit(`${language}_stem`)}, ${word})`
}

/** Words with letters that are written in two ways, as one word. */
const letters = (from: string, to: string) => sql`array[translate(word, ${sql.lit(from)}, ${sql.lit(to)})]`

/** Stemmers by the Tesseract code of a language. */
const earlier: Stemmers = {
  ara: snowball('arabic'),
  dan: snowball('danish'),
  deu: snowball('german'),
  ell: snowball('greek'),
  eng: snowball('english'),
  fin: snowball('finnish'),
  fra: snowball('french'),
  hun: snowball('hungarian'),
  ita: snowball('italian'),
  lit: snowball('lithuanian'),
  nld: snowball('dutch'),
  nor: snowball('norwegian'),
  por: snowball('portuguese'),
  ron: snowball('romanian'),
  rus: snowball('russian'),
  spa: snowball('spanish'),
  swe: snowball('swedish'),
  tur: snowball('turkish'),
}

const changed: Stemmers = {
  ara: snowball('arabic', ['ى$', 'ي']),
  cat: snowball('catalan', ['cio$', 'ció']),
  eus: snowball('basque'),
  // Arabic keyboards and programs have other letters for Persian kaf and yeh.
  fas: letters('ىيك', 'ییک'),
  fra: snowball('french', ['ee(s?)$', 'ée\\1']),
  gle: snowball('irish'),
  hin: snowball('hindi'),
  hye: snowball('armenian'),
  ind: snowball('indonesian'),
  // Malay is close to Indonesian.
  msa: snowball('indonesian'),
  nep: snowball('nepali'),
  por: snowball('portuguese', ['oes$', 'ao'], ['cao$', 'ção']),
  ron: snowball('romanian', ['ati([ei])$', 'ați\\1']),
  rus: snowball('russian', ['([аеиоуыэюя])и$', '\\1й']),
  spa: snowball('spanish', ['ion$', 'ión']),
  srp: snowball('serbian'),
  tam: snowball('tamil'),
  ukr: letters('ґ', 'г'),
  urd: letters('ىيك', 'ییک'),
  yid: snowball('yiddish'),
}

export async function up(db: Kysely<unknown>): Promise<void> {
  await defineStem(db, { ...earlier, ...changed })
  await restem(db)
}

export const loses = 'stems of words, by which searches find their other forms'

export async function down(db: Kysely<unknown>): Promise<void> {
  await defineStem(db, earlier)
  await restem(db)
}

async function defineStem(db: Kysely<unknown>, stemmers: Stemmers): Promise<void> {
  const cases = Object.entries(stemmers).map(([code, stems]) => sql`when ${sql.lit(code)} then ${stems}`)
  await sql`
    create or replace function dms_stem(language text, word text) returns text language sql immutable strict parallel safe return
      coalesce((case language ${sql.join(cases, sql` `)} end)[1], word)`.execute(db)
}

/** Stems the words that are indexed already. */
async function restem(db: Kysely<unknown>): Promise<void> {
  await sql`
    update search_stems set stem = dms_stem(language, word)
    where language = any(${Object.keys(changed)}::text[]) and stem <> dms_stem(language, word)`.execute(db)
}
