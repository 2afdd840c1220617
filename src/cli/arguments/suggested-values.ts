import { Option } from 'commander'

/** A flag with words that completion offers. Whether a value is good, the server knows: there may be several in one. */
export class Offering extends Option {
  readonly offers: readonly string[]

  constructor(flags: string, description: string, offers: readonly string[]) {
    super(flags, description)
    this.offers = offers
  }
}
