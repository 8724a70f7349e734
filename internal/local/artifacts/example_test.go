package artifacts_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorate/quorate/internal/local/artifacts"
)

func ExampleEnsure() {
	set, err := artifacts.Ensure(context.Background(), artifacts.Options{
		Progress: func(p artifacts.Progress) { fmt.Println(p.Elapsed, p.Product, p.Phase, p.Detail) },
	}, artifacts.DefaultVersion)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Machine)
}
